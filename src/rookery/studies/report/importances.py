"""How much each parameter of a study matters for its value, by PED-ANOVA, or by Optuna's fANOVA."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Literal

from rookery.errors import MissingExtra
from rookery.studies.report.ped_anova import ped_anova
from rookery.studies.storage.study_view import StudyView, TrialView

Method = Literal["ped-anova", "fanova"]
METHODS: tuple[Method, ...] = ("ped-anova", "fanova")
FEWEST = 8  # trials: with fewer, importances are noise
MOST = {"ped-anova": 10_000, "fanova": 200}  # trials; fANOVA grows a forest of trees over them


def importances(study: StudyView, method: Method = "ped-anova") -> dict[str, float]:
    """The share of each parameter, the largest first; {} if there are too few trials to say.

    A conditional parameter is judged by the trials that have it; fANOVA takes those that all or half of them have.
    """
    if method == "fanova" and find_spec("sklearn") is None:
        raise MissingExtra("fANOVA needs scikit-learn, which is not installed: pip install scikit-learn")
    known = sorted((trial for trial in study.trials if trial.is_comparable), key=lambda trial: trial.values[0])
    trials = _spread(known, MOST[method])
    params = _varied(trials) if method == "ped-anova" else _common(trials)
    if method == "fanova":
        trials = [trial for trial in trials if all(name in trial.params for name in params)]
    if len(trials) < FEWEST or not params or trials[0].values[0] == trials[-1].values[0]:
        return {}
    evaluate = _fanova if method == "fanova" else ped_anova
    found = evaluate(trials, params, study.maximise)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _spread(trials: Sequence[TrialView], most: int) -> Sequence[TrialView]:
    """At most so many trials, evenly over all values."""
    if len(trials) <= most:
        return trials
    return [trials[k * (len(trials) - 1) // (most - 1)] for k in range(most)]


def _varied(trials: Sequence[TrialView]) -> list[str]:
    names = dict.fromkeys(name for trial in trials for name in trial.params)
    values = {name: [trial.params[name] for trial in trials if name in trial.params] for name in names}
    return [name for name in names if len(values[name]) >= FEWEST and len(set(map(repr, values[name]))) > 1]


def _common(trials: Sequence[TrialView]) -> list[str]:
    """The parameters that every trial has; if there are none, those that half of them have."""
    varied = _varied(trials)
    counts = {name: sum(name in trial.params for trial in trials) for name in varied}
    for least in (len(trials), len(trials) / 2):
        found = [name for name in varied if counts[name] >= least]
        if found:
            return found
    return []


def _fanova(trials: Sequence[TrialView], params: list[str], maximise: bool) -> dict[str, float]:
    import optuna
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances
    from optuna.trial import create_trial

    shown = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study(direction="maximize" if maximise else "minimize")
        for trial in trials:
            made: dict[str, Any] = {"params": dict(trial.params), "distributions": dict(trial.distributions)}
            study.add_trial(create_trial(value=trial.values[0], **made))
        found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0), params=params)
    finally:
        optuna.logging.set_verbosity(shown)
    return {name: float(share) for name, share in found.items()}
