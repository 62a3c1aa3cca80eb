"""How much of a market study's best value is luck: for its report, and for the gate of a deployment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.performance.overfitting import FoldOverfitting, block_overfitting, fold_overfitting
from rookery.performance.worth import chance_of_worth
from rookery.studies.trials.market_plan import BLOCKS, GROUPS, groups_by_fold, read_figures

if TYPE_CHECKING:
    from rookery.studies.storage.study_view import StudyView, TrialView

FEWEST_TRIALS = 2  # of which one was chosen


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
        "deflated_sharpe": fold_chance(study, study.best),
    }


def trials_tried(study: StudyView) -> int:
    """How many settings have been looked at. One that was pruned or failed has been looked at too."""
    return sum(trial.state != "waiting" for trial in study.trials)


def study_overfitting(study: StudyView) -> FoldOverfitting | None:
    """The probability that the best trial was chosen by luck; None with fewer than two trials with all folds."""
    tested = groups_by_fold(groups_of(study))
    complete = [trial for trial in study.trials if fold_values(trial, len(tested)) is not None]
    sums = [found for found in (trial_blocks(trial, study.folder) for trial in complete) if found is not None]
    if len(sums) >= FEWEST_TRIALS:
        found = block_overfitting(np.stack(sums, axis=1))
        return FoldOverfitting(found.probability, found.loss, len(sums))
    # An older study has one value per fold only.
    rows = [row for row in (fold_values(trial, len(tested)) for trial in complete) if row is not None]
    return fold_overfitting(np.array(rows), tested) if len(rows) >= FEWEST_TRIALS else None


def trial_blocks(trial: TrialView, folder: Path | None) -> np.ndarray | None:
    """The sums (blocks, 3) of what a trial earned beyond holding, bar by bar, over all its folds; None if some are not
    recorded."""
    if folder is None:
        return None
    found = [figures["blocks"] for figures in _figures(trial.parts, folder)]
    if len(found) < len(trial.parts) or any(len(blocks) != BLOCKS for blocks in found):
        return None
    sums = np.sum(found, axis=0)
    return sums if (sums[:, 0] > 1).all() else None


def groups_of(study: StudyView) -> int:
    """The groups of bars of the study's cross-validation."""
    search = (study.config or {}).get("search") or {}
    return int(search.get("folds") or GROUPS)


def fold_values(trial: TrialView, folds: int) -> list[float] | None:
    """The values of a trial by fold; None unless it has all."""
    found = [_value(trial.parts.get(f"fold-{k}")) for k in range(folds)]
    return None if None in found else [float(value) for value in found if value is not None]


def fold_chance(study: StudyView, trial: TrialView | None) -> float | None:
    """How likely a trial is worth anything: over the tests of its folds, by which it was chosen among all trials."""
    found = fold_figures(study, trial)
    return None if found is None else chance_of_worth(found, trials_tried(study))


def fold_figures(study: StudyView, trial: TrialView | None) -> dict[str, float] | None:
    """The moments of what a trial earned beyond holding in the tests of its folds; None if some are not recorded."""
    if trial is None or study.folder is None:
        return None
    found = list(_figures(trial.parts, study.folder))
    if not found or len(found) < len(trial.parts):
        return None
    means = {
        name: float(np.mean([each[name] for each in found])) for name in ("sharpe_per_bar", "skewness", "kurtosis")
    }
    # Every bar is tested by several folds, and counts once.
    groups = groups_of(study)
    passes = math.comb(groups - 1, len(groups_by_fold(groups)[0]) - 1)
    bars = sum(each["observations"] for each in found) / passes
    return {**means, "observations": bars}


def _figures(parts: Mapping[str, Any], folder: Path) -> Iterable[dict[str, Any]]:
    for part in parts.values():
        found = read_figures(folder / str(part.get("run", "")))
        if found is not None:
            yield found


def _value(part: Any) -> float | None:
    value = part.get("value") if isinstance(part, Mapping) else None
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
