"""How much of a market study's best value is luck: for its report, and for the gate of a deployment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.performance.overfitting import FoldOverfitting, deflated_sharpe, fold_overfitting
from rookery.studies.trials.market_plan import GROUPS, groups_by_fold, read_figures

if TYPE_CHECKING:
    from rookery.studies.storage.study_view import StudyView, TrialView

FEWEST_TRIALS = 2  # of which one was chosen
FEWEST_BARS = 10


def market_figures(study: StudyView) -> dict[str, Any]:
    """What the report of a market study says beside its values; None for a figure that the trials do not give.

    Returns:
        A dict with `trials` (how many there were, failed ones included), `overfitting_probability`, `loss_probability`
        and `deflated_sharpe` of the best trial, over the tests of its folds.
    """
    found, trials = study_overfitting(study), trials_tried(study)
    return {
        "trials": trials,
        "overfitting_probability": None if found is None else found.probability,
        "loss_probability": None if found is None else found.loss,
        "deflated_sharpe": _deflated(study, trials),
    }


def trials_tried(study: StudyView) -> int:
    """How many settings have been looked at. One that was pruned or failed has been looked at too."""
    return sum(trial.state != "waiting" for trial in study.trials)


def study_overfitting(study: StudyView) -> FoldOverfitting | None:
    """The probability that the best trial was chosen by luck; None with fewer than two trials with all folds."""
    tested = groups_by_fold(groups_of(study))
    rows = [row for row in (fold_values(trial, len(tested)) for trial in study.trials) if row is not None]
    return fold_overfitting(np.array(rows), tested) if len(rows) >= FEWEST_TRIALS else None


def groups_of(study: StudyView) -> int:
    """The groups of bars of the study's cross-validation."""
    search = (study.config or {}).get("search") or {}
    return int(search.get("folds") or GROUPS)


def fold_values(trial: TrialView, folds: int) -> list[float] | None:
    """The values of a trial by fold; None unless it has all."""
    found = [_value(trial.parts.get(f"fold-{k}")) for k in range(folds)]
    return None if None in found else [float(value) for value in found if value is not None]


def chance_of_worth(figures: Mapping[str, float], trials: int) -> float:
    """The deflated Sharpe ratio: how likely an account is better than holding, if it is the best of so many trials.

    Trials that are worth nothing differ by chance alone, by a variance of 1 / (bars - 1). The spread of a study's
    values is not a measure of that: its settings differ in what they are worth too.

    Args:
        figures: `sharpe_per_bar`, `observations`, `skewness` and `kurtosis` of what it earned beyond holding.
        trials: How many settings and comparisons there were.

    >>> account = {"sharpe_per_bar": 0.1, "observations": 1000, "skewness": 0.0, "kurtosis": 3.0}
    >>> round(chance_of_worth(account, 1), 3), round(chance_of_worth(account, 500), 3)
    (0.999, 0.543)
    """
    bars = figures["observations"]
    if bars < FEWEST_BARS:
        return 0.0
    ratio, skewness, kurtosis = (figures[name] for name in ("sharpe_per_bar", "skewness", "kurtosis"))
    return deflated_sharpe(ratio, bars, max(trials, 1), 1 / (bars - 1), skewness, kurtosis)


def _deflated(study: StudyView, trials: int) -> float | None:
    """How likely the best trial is worth anything: over the tests of its folds, which were compared with all others."""
    best = study.best
    if best is None or study.folder is None:
        return None
    found = list(_figures(best.parts, study.folder))
    if not found or len(found) < len(best.parts):
        return None
    means = {
        name: float(np.mean([each[name] for each in found])) for name in ("sharpe_per_bar", "skewness", "kurtosis")
    }
    # Every bar is tested by several folds, and counts once.
    groups = groups_of(study)
    passes = math.comb(groups - 1, len(groups_by_fold(groups)[0]) - 1)
    bars = sum(each["observations"] for each in found) / passes
    return chance_of_worth({**means, "observations": bars}, trials)


def _figures(parts: Mapping[str, Any], folder: Path) -> Iterable[dict[str, float]]:
    for part in parts.values():
        found = read_figures(folder / str(part.get("run", "")))
        if found is not None:
            yield found


def _value(part: Any) -> float | None:
    value = part.get("value") if isinstance(part, Mapping) else None
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
