"""PED-ANOVA: how much each parameter decides whether a trial is among the best (Watanabe and others, 2023).

For each parameter, the density of its values among the best tenth of the trials is compared with that among all trials,
by the Pearson divergence. Optuna has this too, but importing it imports scikit-learn, which takes seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rookery.studies.storage.study_view import TrialView

BEST = 0.1  # share of the trials
FEWEST_BEST = 2
GRID = 50  # points over the range of a number
SCOTT = 1.059  # factor of Scott's rule for the width of kernels
NARROWEST = 0.3  # width of a kernel in points of the grid


def ped_anova(trials: Sequence[TrialView], params: Sequence[str], maximise: bool) -> dict[str, float]:
    """The share of each parameter. A parameter that some trials do not have is judged by those that have it."""
    best = best_tenth(np.array([-trial.values[0] if maximise else trial.values[0] for trial in trials]))
    return shares({name: _divergence(name, trials, best) for name in params})


def best_tenth(losses: np.ndarray) -> np.ndarray:
    """Which trials are among the best."""
    place = max(math.ceil(BEST * len(losses)), FEWEST_BEST) - 1
    return losses <= np.partition(losses, place)[place]


def shares(found: Mapping[str, float]) -> dict[str, float]:
    """Divergences as shares of their sum."""
    total = sum(found.values())
    return {name: value / total for name, value in found.items()} if total > 0 else {}


def _divergence(name: str, trials: Sequence[TrialView], best: np.ndarray) -> float:
    """The variance of the ratio of the two densities, over all trials."""
    has = np.array([name in trial.params for trial in trials])
    values = [trial.params[name] for trial in trials if name in trial.params]
    if not (has & best).any():
        return 0.0
    if all(map(is_number, values)):
        declared = next(trial.distributions.get(name) for trial in trials if name in trial.params)
        return numeric_divergence(np.array(values, dtype=np.float64), best[has], declared)
    names = [repr(value) for value in values]
    known = sorted(set(names))
    return choice_divergence(np.array([known.index(name) for name in names]), best[has])


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _variance(all_counts: np.ndarray, best_counts: np.ndarray) -> float:
    ratio = best_counts / all_counts
    return float(np.sum(all_counts * np.square(ratio - 1)))


def choice_divergence(places: np.ndarray, best: np.ndarray) -> float:
    """Of a parameter with choices, by their places among those that occur. Kernels leave a part to the other choices,
    as those of numbers do."""
    known = int(places.max()) + 1
    kernels = np.eye(known) + 1 / (known + 1)
    kernels /= kernels.sum(axis=0)
    counts = [np.bincount(chosen, minlength=known) for chosen in (places, places[best])]
    all_shares, best_shares = (kernels @ count + 1 / known for count in counts)
    return _variance(all_shares / all_shares.sum(), best_shares / best_shares.sum())


def numeric_divergence(found: np.ndarray, best: np.ndarray, declared: Any) -> float:
    """Of a number: densities on the grid, by kernels of a normal distribution and one flat kernel, so that none is
    zero. `declared` may have `low`, `high` and `log`."""
    low, high = getattr(declared, "low", found.min()), getattr(declared, "high", found.max())
    if getattr(declared, "log", False) and low > 0:
        found, low, high = np.log(found), math.log(low), math.log(high)
    places = (GRID - 1) * (found - low) / (high - low) if high > low else np.zeros_like(found)
    return _variance(_density(places), _density(places[best]))


def _density(places: np.ndarray) -> np.ndarray:
    grid = np.arange(GRID)
    counts = np.bincount(np.clip(np.rint(places), 0, GRID - 1).astype(int), minlength=GRID)
    quarter, half = np.quantile(places, (0.25, 0.75))
    spread = min((half - quarter) / 1.34, places.std(ddof=1)) if len(places) > 1 else 0.0
    width = max(SCOTT * spread * len(places) ** -0.2, NARROWEST)
    kernels = np.exp(-0.5 * np.square((grid[:, None] - grid[None, :]) / width))
    kernels /= kernels.sum(axis=0)
    density = kernels @ counts + 1 / GRID
    return density / density.sum()
