"""Pruning: stop trials early that look bad, by Optuna's pruners; and what that has saved and may have cost.

Median, ASHA and Hyperband compare the evaluations during a trial's first run. Wilcoxon compares the values of its seeds
or folds, one by one, with those of the best trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from rookery.config import RunConfig
from rookery.studies.storage.study_store import Claim
from rookery.studies.storage.trial_view import PARTS
from rookery.training.run.callbacks import Callback, RunControl

PRUNED = "pruned"  # the reason with which such a run ends
BY_EVALUATIONS = ("median", "asha", "hyperband")


def pruning_callback(claim: Claim, config: RunConfig) -> Callback:
    """A callback for a trial's first run: it reports evaluations, and stops the run if the pruner says so."""

    class Pruning(Callback):  # not at the top of the file, so that a run does not record it
        def on_evaluation(self, run: RunControl, metrics: Any) -> None:
            claim.report(metrics["eval/return"], run.step)
            if run.step < config.steps and claim.should_prune():
                run.stop(PRUNED)

    return Pruning()


def pruning_report(trials: Sequence[FrozenTrial], steps: int) -> dict[str, Any] | None:
    """What pruning has saved and may have cost; None if nothing was pruned.

    `steps_saved` are the steps that first runs did not make. `ahead_of_best` counts pruned trials that were not behind
    the best finished trial at the step where they were stopped: these may have been worth training to the end.
    """
    pruned = [trial for trial in trials if trial.state == TrialState.PRUNED]
    if not pruned:
        return None
    made = [sum(part.get("steps") or 0 for part in trial.user_attrs.get(PARTS, {}).values()) for trial in pruned]
    saved = sum(max(0, steps - each) for each in made)
    finished = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    all_steps = sum(
        sum(part.get("steps") or 0 for part in trial.user_attrs.get(PARTS, {}).values()) for trial in trials
    )
    best = max(finished, key=lambda trial: trial.values[0]).intermediate_values if finished else {}
    return {
        "pruned": len(pruned),
        "steps_saved": saved,
        "share_saved": saved / (saved + all_steps) if saved + all_steps else 0.0,
        "ahead_of_best": sum(_was_ahead(trial.intermediate_values, best) for trial in pruned),
    }


def _was_ahead(values: dict[int, float], best: dict[int, float]) -> bool:
    last = max(values, default=None)
    return last is not None and last in best and values[last] >= best[last]
