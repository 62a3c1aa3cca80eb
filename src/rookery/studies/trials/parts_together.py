"""Trains parts of trials side by side, as one program, where they differ in numbers, seeds and windows only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rookery.console import say
from rookery.errors import RookeryError, RunBusy
from rookery.studies.trials.part_training import (
    FAILED,
    INTERRUPTED,
    PartOutcome,
    Watcher,
    has_begun,
    known_outcome,
    outcome_from,
    reason_of,
    train_part,
)
from rookery.studies.trials.pruning import PRUNED
from rookery.studies.trials.trial_plan import TrialPart
from rookery.training.population.batchable import batchable_groups
from rookery.training.population.members import MemberPlan
from rookery.training.population.train_population import recorded_config, run_population
from rookery.training.run.callbacks import make_callback
from rookery.training.storage.run_dir import RunDir


def batches(parts: Sequence[TrialPart]) -> list[list[TrialPart]]:
    """The parts in groups that can train as one program; a part that can with no other is a group of its own."""
    return [[parts[place] for place in places] for places in batchable_groups([part.config for part in parts])]


def train_together(
    parts: Sequence[TrialPart], watcher: Watcher, stop: Callable[[], bool] = lambda: False
) -> dict[str, PartOutcome]:
    """Train parts of one group; returns the outcome of each by the name of its run. After a stop, those that have not
    begun have none."""
    folders = {part.run_name: RunDir(Path(part.config.runs_dir) / part.run_name) for part in parts}
    found = {part.run_name: known_outcome(part) for part in parts}
    outcomes = {name: outcome for name, outcome in found.items() if outcome is not None}
    left = [part for part in parts if part.run_name not in outcomes]
    if len(left) > 1:
        try:
            results = run_population([_plan(part, folders[part.run_name], watcher) for part in left])
        except (KeyboardInterrupt, SystemExit):  # before the first step
            return outcomes | {part.run_name: PartOutcome(INTERRUPTED, folders[part.run_name]) for part in left}
        except RunBusy:
            raise
        except RookeryError as error:  # of one of them, which training one by one will name
            say(f"{len(left)} runs train one by one, as they could not side by side: {error}")
        else:
            for part, result in zip(left, results, strict=True):
                folder = folders[part.run_name]
                if isinstance(result, Exception):
                    outcomes[part.run_name] = PartOutcome(FAILED, folder, reason=reason_of(result))
                else:
                    outcomes[part.run_name] = outcome_from(result)
            return outcomes
    for part in left:
        if stop():
            break
        outcomes[part.run_name] = outcome = train_part(part, watcher(part))
        if outcome.state == INTERRUPTED and outcome.reason != PRUNED:  # its run has taken the signal
            break
    return outcomes


def _plan(part: TrialPart, folder: RunDir, watcher: Watcher) -> MemberPlan:
    own = watcher(part)
    callbacks = None if own is None else [*map(make_callback, part.config.callbacks), own]
    if has_begun(part.config, folder):
        return MemberPlan(recorded_config(folder), folder, callbacks=callbacks)
    return MemberPlan(part.config, callbacks=callbacks)
