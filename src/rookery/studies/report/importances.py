"""How much each parameter of a study matters for its value, by PED-ANOVA, or by Optuna's fANOVA.

PED-ANOVA says how much each parameter decides whether a trial is among the best (Watanabe and others, 2023): the
density of its values among the best tenth of the trials is compared with that among all trials, by the Pearson
divergence. Optuna has this too, but importing it imports scikit-learn, which takes seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from rookery.errors import MissingExtra
from rookery.studies.storage.study_view import StudyView, TrialView
from rookery.studies.storage.trial_table import Floats
from rookery.studies.storage.trial_view import Distribution

Method = Literal["ped-anova", "fanova"]
FEWEST = 8  # trials: with fewer, importances are noise
MOST = {"ped-anova": 10_000, "fanova": 200}  # trials; fANOVA grows a forest of trees over them
BEST = 0.1  # share of the trials
FEWEST_BEST = 2
GRID = 50  # points over the range of a number
SCOTT = 1.059  # factor of Scott's rule for the width of kernels
NARROWEST = 0.3  # width of a kernel in points of the grid


def importances(study: StudyView, method: Method = "ped-anova") -> dict[str, float]:
    """The share of each parameter, the largest first; {} if there are too few trials to say.

    A conditional parameter is judged by the trials that have it; fANOVA takes those that all or half of them have.
    """
    if method == "fanova" and find_spec("sklearn") is None:
        raise MissingExtra("fANOVA needs scikit-learn, which is not installed: pip install scikit-learn")
    known = sorted(study.comparable, key=lambda trial: trial.values[0])
    trials = [known[place] for place in spread(len(known), MOST[method])]
    columns = {name: _column(trials, name, each) for name, each in study.distributions.items()}
    if method == "ped-anova":
        sign = -1 if study.maximise else 1
        return ped_anova(np.array([sign * trial.values[0] for trial in trials]), columns, study.distributions)
    params = _common(columns)
    trials = [trial for trial in trials if all(name in trial.params for name in params)]
    if len(trials) < FEWEST or not params or trials[0].values[0] == trials[-1].values[0]:
        return {}
    return _ordered(_fanova(trials, params, study))


def spread(count: int, most: int) -> list[int]:
    """The places of at most so many of `count` trials, evenly over all of them."""
    return list(range(count)) if count <= most else [k * (count - 1) // (most - 1) for k in range(most)]


def _column(trials: Sequence[TrialView], name: str, distribution: Distribution) -> Floats:
    """As a table of trials has it: choices by their places, NaN where a trial does not have the parameter."""
    return np.array([distribution.stored(each.params[name]) if name in each.params else np.nan for each in trials])


def _varied(column: Floats) -> bool:
    known = column[np.isfinite(column)]
    return len(known) >= FEWEST and bool(np.ptp(known) > 0)


def _common(columns: Mapping[str, Floats]) -> list[str]:
    """The parameters that every trial has; if there are none, those that half of them have."""
    shares = {name: np.isfinite(column).mean() for name, column in columns.items() if _varied(column)}
    return next((found for least in (1.0, 0.5) if (found := [name for name in shares if shares[name] >= least])), [])


def _ordered(shares: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _fanova(trials: Sequence[TrialView], params: list[str], study: StudyView) -> dict[str, float]:
    import optuna
    from optuna.distributions import json_to_distribution
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances
    from optuna.trial import create_trial

    distributions = {name: json_to_distribution(each.text) for name, each in study.distributions.items()}
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        theirs = optuna.create_study(direction="maximize" if study.maximise else "minimize")
        for trial in trials:
            of_trial = {name: distributions[name] for name in trial.params}
            theirs.add_trial(create_trial(value=trial.values[0], params=dict(trial.params), distributions=of_trial))
        found = get_param_importances(theirs, evaluator=FanovaImportanceEvaluator(seed=0), params=params)
    finally:
        optuna.logging.set_verbosity(level)
    return {name: float(share) for name, share in found.items()}


# --- PED-ANOVA ------------------------------------------------------------------------------------------------------


def ped_anova(
    losses: Floats, columns: Mapping[str, Floats], distributions: Mapping[str, Distribution]
) -> dict[str, float]:
    """The share of each parameter, the largest first, of trials in the order of their values; {} if there are too few
    trials to say. A parameter that some trials do not have is judged by those that have it."""
    if len(losses) < FEWEST or losses[0] == losses[-1]:
        return {}
    place = max(math.ceil(BEST * len(losses)), FEWEST_BEST) - 1
    best = losses <= np.partition(losses, place)[place]
    found = {}
    for name, column in columns.items():
        if _varied(column):
            has = np.isfinite(column)
            found[name] = _divergence(column[has], best[has], distributions[name])
    total = sum(found.values())
    return _ordered({name: value / total for name, value in found.items()}) if total > 0 else {}


def _divergence(values: Floats, best: np.ndarray, given: Distribution) -> float:
    """The variance of the ratio of the two densities, over all trials."""
    if not best.any():
        return 0.0
    if given.choices is None:
        return _numeric_divergence(values, best, given)
    occurring, places = np.unique(values.astype(np.intp), return_inverse=True)
    choices = [given.choices[place] for place in occurring]
    if all(is_number(choice) for choice in choices):
        return _numeric_divergence(np.array(choices, np.float64)[places], best, None)
    return _choice_divergence(places, best)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _variance(all_counts: np.ndarray, best_counts: np.ndarray) -> float:
    ratio = best_counts / all_counts
    return float(np.sum(all_counts * np.square(ratio - 1)))


def _choice_divergence(places: np.ndarray, best: np.ndarray) -> float:
    """Of a parameter with choices, by their places among those that occur. Kernels leave a part to the other choices,
    as those of numbers do."""
    known = int(places.max()) + 1
    kernels = np.eye(known) + 1 / (known + 1)
    kernels /= kernels.sum(axis=0)
    counts = [np.bincount(chosen, minlength=known) for chosen in (places, places[best])]
    all_shares, best_shares = (kernels @ count + 1 / known for count in counts)
    return _variance(all_shares / all_shares.sum(), best_shares / best_shares.sum())


def _numeric_divergence(found: Floats, best: np.ndarray, declared: Distribution | None) -> float:
    """Of a number: densities on the grid, by kernels of a normal distribution and one flat kernel, so that none is
    zero."""
    low, high = float(found.min()), float(found.max())
    if declared is not None and declared.low is not None and declared.high is not None:
        low, high = declared.low, declared.high
        if declared.log and low > 0:
            found, low, high = np.log(found), math.log(low), math.log(high)
    places = (GRID - 1) * (found - low) / (high - low) if high > low else np.zeros_like(found)
    return _variance(_density(places), _density(places[best]))


def _density(places: Floats) -> Floats:
    grid = np.arange(GRID)
    counts = np.bincount(np.clip(np.rint(places), 0, GRID - 1).astype(int), minlength=GRID)
    quarter, half = np.quantile(places, (0.25, 0.75))
    spread = min((half - quarter) / 1.34, places.std(ddof=1)) if len(places) > 1 else 0.0
    width = max(SCOTT * spread * len(places) ** -0.2, NARROWEST)
    kernels = np.exp(-0.5 * np.square((grid[:, None] - grid[None, :]) / width))
    kernels /= kernels.sum(axis=0)
    density = kernels @ counts + 1 / GRID
    return density / density.sum()
