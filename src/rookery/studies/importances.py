"""How much each parameter of a study matters for its value, by Optuna's evaluators."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Literal

from rookery.errors import MissingExtra
from rookery.studies.study_view import StudyView, TrialView

Method = Literal["ped-anova", "fanova"]
METHODS: tuple[Method, ...] = ("ped-anova", "fanova")
FEWEST = 8  # trials: with fewer, importances are noise
MOST = {"ped-anova": 1000, "fanova": 200}  # trials, as both take time that grows with them


def importances(study: StudyView, method: Method = "ped-anova") -> dict[str, float]:
    """The share of each parameter, the largest first; {} if there are too few trials to say.

    A parameter counts if at least half of the trials have it; a conditional one is judged by the trials that do.
    """
    if method == "fanova" and find_spec("sklearn") is None:
        raise MissingExtra("fANOVA needs scikit-learn, which is not installed: pip install scikit-learn")
    known = sorted((trial for trial in study.trials if trial.is_comparable), key=lambda trial: trial.values[0])
    used = _spread(known, MOST[method])
    params = _common(used)
    trials = [trial for trial in used if all(name in trial.params for name in params)]
    if len(trials) < FEWEST or not params or trials[0].values[0] == trials[-1].values[0]:
        return {}
    return _evaluate(trials, params, study.maximise, method)


def _spread(trials: Sequence[TrialView], most: int) -> Sequence[TrialView]:
    """At most so many trials, evenly over all values."""
    if len(trials) <= most:
        return trials
    return [trials[k * (len(trials) - 1) // (most - 1)] for k in range(most)]


def _common(trials: Sequence[TrialView]) -> list[str]:
    """The parameters that vary and that every trial has; if there are none, those that half of them have."""
    names = dict.fromkeys(name for trial in trials for name in trial.params)
    counts = {name: sum(name in trial.params for trial in trials) for name in names}
    varied = [name for name in names if len({str(trial.params.get(name)) for trial in trials}) > 1]
    for least in (len(trials), len(trials) / 2):
        found = [name for name in varied if counts[name] >= least]
        if found:
            return found
    return []


def _evaluate(trials: Sequence[TrialView], params: list[str], maximise: bool, method: Method) -> dict[str, float]:
    import optuna
    from optuna.importance import FanovaImportanceEvaluator, PedAnovaImportanceEvaluator, get_param_importances

    shown = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about parameters without influence
            study = optuna.create_study(direction="maximize" if maximise else "minimize")
            study.add_trials([_optuna_trial(trial) for trial in trials])
            evaluator = FanovaImportanceEvaluator(seed=0) if method == "fanova" else PedAnovaImportanceEvaluator()
            found = get_param_importances(study, evaluator=evaluator, params=params)
    except (ValueError, RuntimeError, ZeroDivisionError):  # such as equal values in the better half
        return {}
    finally:
        optuna.logging.set_verbosity(shown)
    return {name: float(share) for name, share in sorted(found.items(), key=lambda item: -item[1])}


def _optuna_trial(trial: TrialView) -> Any:
    from optuna.trial import create_trial

    return create_trial(value=trial.values[0], params=dict(trial.params), distributions=dict(trial.distributions))
