"""Verification: the best trials are trained again with held-out seeds before one of them is called the best.

A trial that was chosen because its value was high had luck as well; its value on seeds that had no part in the choice
has not. Workers share the runs among themselves by locks in the study's folder.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from rookery.config import RunConfig
from rookery.errors import RunBusy
from rookery.studies.storage.study_store import StudyStore
from rookery.studies.storage.trial_view import SETTINGS, verified_key
from rookery.studies.study_config import trial_config
from rookery.studies.trials.part_training import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    PartOutcome,
    outcome_of,
    part_lock,
    reason_of,
    train_part,
)
from rookery.studies.trials.plans import TrialPart, TrialPlan, plan_for
from rookery.studies.workers.limits import StopSignals
from rookery.training.storage.run_dir import RunDir

VALUE = "study_value"  # in run.json: what a verification's run has reached
POLL_SECONDS = 0.5  # while other workers have what is left


def to_verify(trials: Sequence[FrozenTrial], count: int) -> list[FrozenTrial]:
    """The best trials by value, the first objective if there are several; of equal ones the earlier."""
    finished = [trial for trial in trials if trial.state == TrialState.COMPLETE and SETTINGS in trial.user_attrs]
    return sorted(finished, key=lambda trial: (-trial.values[0], trial.number))[:count]


def is_verified(study: optuna.Study, number: int) -> bool:
    return verified_key(number) in study.user_attrs


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


class VerificationWorker:
    """Verifies the best trials of a study. Workers divide the runs between them by locks."""

    def __init__(self, store: StudyStore, base: RunConfig, stop: StopSignals, tell: Callable[..., None]) -> None:
        """`base` is the configuration of the study; `tell` is called with facts for the supervisor."""
        self.store, self.base, self.stop, self.tell = store, base, stop, tell
        self.plan = plan_for(base)
        self._failed_ahead: set[str] = set()

    def train_ahead(self) -> bool:
        """While others train the last trials: train one run of those trials that are the best so far. Nothing is
        decided by it: its value waits in the run's folder, for when the trial is verified. Returns whether there was
        one to train."""
        for number, parts in parts_to_verify(self.store, self.base).items():
            for part in parts:
                if part.run_name in self._failed_ahead or known_value(part) is not None:
                    continue
                with part_lock(self.store.folder.workers, part) as free:
                    if free and known_value(part) is None:
                        if self._train(number, part):
                            self._failed_ahead.add(part.run_name)  # verification tries it again, and tells
                        return True
        return False

    def run(self) -> None:
        """Until all are verified, or it is asked to stop."""
        parts = parts_to_verify(self.store, self.base)
        while not self.stop:
            open_numbers = [number for number in parts if not is_verified(self.store.study, number)]
            if not open_numbers:
                return
            if not any([self._verify(number, parts[number]) for number in open_numbers]):
                time.sleep(POLL_SECONDS)

    def _verify(self, number: int, parts: Sequence[TrialPart]) -> bool:
        """Train those parts of a trial that no other worker has; returns whether anything was done."""
        busy = False
        for part in parts:
            if self.stop:
                return True
            if known_value(part) is not None:
                continue
            with part_lock(self.store.folder.workers, part) as free:
                if not free or known_value(part) is not None:
                    continue
                busy = True
                reason = self._train(number, part)
            if reason:
                self.store.set_verified(number, failed_facts(parts, reason))
                return True
        facts = verified_facts(self.plan, parts)
        if facts is not None:
            self.store.set_verified(number, facts)
            self.tell(event="verified", trial=number, value=facts["iqm"])
        return busy or facts is not None

    def _train(self, number: int, part: TrialPart) -> str:
        """Train a part; returns why it cannot be valued, or ""."""
        self.tell(event="verify", trial=number, part=part.name)
        try:
            outcome = train_part(part)
        except RunBusy as error:
            return reason_of(error)
        if outcome.state == INTERRUPTED:
            self.stop.noticed()
            return ""
        return add_value(self.plan, part, outcome)


def parts_to_verify(store: StudyStore, base: RunConfig) -> dict[int, list[TrialPart]]:
    """The runs of each trial that is to be verified, the best trial first."""
    plan, runs = plan_for(base), store.folder.runs
    chosen = to_verify(store.study.get_trials(deepcopy=False), base.search.verify)
    configs = {trial.number: trial_config(base, trial.user_attrs[SETTINGS], trial.number, runs) for trial in chosen}
    return {number: plan.verify_parts(config) for number, config in configs.items()}
