"""Verification: the best trials are trained again with held-out seeds before one of them is called the best.

A trial that was chosen because its value was high had luck as well; its value on seeds that had no part in the choice
has not. Workers share the runs among themselves by locks in the study's folder.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from rookery.files import open_plain, try_lock
from rookery.studies.storage.trial_attributes import SETTINGS, verified_key
from rookery.studies.trials.part_training import FAILED, FINISHED, PartOutcome, outcome_of
from rookery.studies.trials.trial_plan import TrialPart, TrialPlan
from rookery.training.storage.run_dir import RunDir

VALUE = "study_value"  # in run.json: what a verification's run has reached


def to_verify(trials: Sequence[FrozenTrial], count: int) -> list[FrozenTrial]:
    """The best trials by value, the first objective if there are several; of equal ones the earlier."""
    finished = [trial for trial in trials if trial.state == TrialState.COMPLETE and SETTINGS in trial.user_attrs]
    return sorted(finished, key=lambda trial: (-trial.values[0], trial.number))[:count]


def is_verified(study: optuna.Study, number: int) -> bool:
    return verified_key(number) in study.user_attrs


@contextmanager
def part_lock(folder: Path, part: TrialPart) -> Iterator[bool]:
    """Whether this process may train the part: not while another one does. A killed process holds no lock."""
    fd = open_plain(folder / f"{part.run_name}.lock", os.O_RDWR | os.O_CREAT)
    try:
        try:
            try_lock(fd)
            free = True
        except BlockingIOError:
            free = False
        yield free
    finally:
        os.close(fd)


def known_value(part: TrialPart) -> float | None:
    """The value of a part whose run has ended and was valued; None if it is not known."""
    run = RunDir(Path(part.config.runs_dir) / part.run_name)
    outcome = outcome_of(run)
    value = run.birth().get(VALUE) if outcome is not None and outcome.state == FINISHED else None
    return float(value) if isinstance(value, int | float) else None


def add_value(plan: TrialPlan, part: TrialPart, outcome: PartOutcome) -> str:
    """Note the value of a part that was trained, in its run's folder; returns why that is impossible, or ""."""
    if outcome.state == FAILED:
        return f"{part.name}: {outcome.reason}"
    value = plan.value(part, outcome.run)
    if not math.isfinite(value):
        return f"{part.name}: its value is {value}"
    outcome.run.remember(**{VALUE: value})
    return ""


def verified_facts(plan: TrialPlan, parts: Sequence[TrialPart]) -> dict[str, Any] | None:
    """What the study records about a verified trial; None while values are missing."""
    values = {part.name: known_value(part) for part in parts}
    known = {name: value for name, value in values.items() if value is not None}
    if len(known) < len(parts):
        return None
    interval = plan.interval(known)
    return {
        "values": {str(part.config.seed): known[part.name] for part in parts},
        "iqm": plan.total(known),
        "interval": None if interval is None else list(interval),
        "runs": _runs(parts),
    }


def failed_facts(parts: Sequence[TrialPart], reason: str) -> dict[str, Any]:
    """The same for a trial that fails with a held-out seed: it cannot be the best."""
    return {"values": {}, "iqm": None, "interval": None, "runs": _runs(parts), "reason": reason}


def _runs(parts: Sequence[TrialPart]) -> list[str]:
    return [f"runs/{part.run_name}" for part in parts]
