"""A trial that this worker trains: what is known about it, and what is recorded about it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.trial import TrialState

from rookery.errors import LeaseLost, StudyError
from rookery.studies.storage.leases import Leases
from rookery.studies.storage.patient_storage import PatientStorage
from rookery.studies.storage.trial_attributes import PARTS, REASON, SETTINGS


class Claim:
    """A trial under a lease, from `StudyStore.claim`.

    All that is written is refused with `LeaseLost` once another worker has the trial; that holds for `trial` too, which
    is Optuna's. While the database does not answer, writing waits, and ends with `StorageLost`.
    """

    def __init__(self, study: optuna.Study, storage: PatientStorage, leases: Leases, trial_id: int, token: str) -> None:
        self._study, self._storage, self._leases, self._trial_id, self._token = study, storage, leases, trial_id, token
        self.lost = False
        storage.fences[trial_id] = self._fence
        self.trial = optuna.Trial(study, trial_id)
        found = storage.get_trial(trial_id)
        self.number = found.number
        self.settings: dict[str, Any] | None = found.user_attrs.get(SETTINGS)
        self.parts: dict[str, dict[str, Any]] = dict(found.user_attrs.get(PARTS, {}))

    def __repr__(self) -> str:
        return f"Claim(number={self.number})"

    # --- the lease ----------------------------------------------------------------------------------------------

    def renew(self) -> None:
        """Tell the others that this worker lives. Raises `LeaseLost`, and sets `lost`, if one of them has the trial."""
        self._storage.transaction(self._fence)

    @contextmanager
    def keep(self, lost: Callable[[], None] | None = None) -> Iterator[None]:
        """Renew the lease within, by a thread. If it is lost, or the database is, `lost()` is called in that thread."""
        ended = threading.Event()
        thread = threading.Thread(target=self._renew_until, args=(ended, lost), name="rookery lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def release(self) -> None:
        """Give the trial back unfinished: the next worker that asks goes on from its checkpoints."""
        self._storage.transaction(lambda connection: self._leases.release(connection, self._trial_id, self._token))
        self._forget()

    def _renew_until(self, ended: threading.Event, lost: Callable[[], None] | None) -> None:
        while not ended.wait(self._leases.seconds / 3):
            try:
                self.renew()
            except StudyError:  # the worker itself meets the same error when it next writes
                if lost is not None:
                    lost()
                return

    def _fence(self, connection: Any) -> None:
        try:
            self._leases.renew(connection, self._trial_id, self._token)
        except LeaseLost:
            self.lost = True
            raise

    def _forget(self) -> None:
        if self._storage.fences.get(self._trial_id) == self._fence:
            del self._storage.fences[self._trial_id]

    # --- what is recorded ---------------------------------------------------------------------------------------

    def suggest(self, suggest: Callable[[optuna.Trial], Mapping[str, Any]]) -> dict[str, Any]:
        """The trial's settings: those that were recorded, or new ones from `suggest`, such as `SearchSpace.suggest`."""
        if self.settings is None:
            settings = dict(suggest(self.trial))
            self.set_attribute(SETTINGS, settings)
            self.settings = settings
        return self.settings

    def set_attribute(self, key: str, value: Any) -> None:
        """Record a user attribute of the trial, in a form that JSON has."""
        self._storage.set_trial_user_attr(self._trial_id, key, finite(value))

    def set_part(self, name: str, about: Mapping[str, Any]) -> None:
        """Record what a part of the trial, such as a seed or a fold, has reached. Replaces what was known of it."""
        parts = {**self.parts, name: {**self.parts.get(name, {}), **about}}
        self.set_attribute(PARTS, parts)
        self.parts = parts
        self._storage.transaction(lambda connection: self._leases.progressed(connection, self._trial_id, self._token))

    def report(self, value: float, step: int) -> None:
        """Record a value for pruning; one that was reported for this step is replaced."""
        self._storage.set_trial_intermediate_value(self._trial_id, int(step), float(value))
        self.trial._cached_frozen_trial.intermediate_values[int(step)] = float(value)  # which Optuna's pruners read

    def should_prune(self) -> bool:
        """Whether the study's pruner would stop the trial here."""
        return self.trial.should_prune()

    def finish(self, values: float | Sequence[float]) -> None:
        """Record the trial's value or values. A value that is NaN fails the trial."""
        numbers = [float(value) for value in (values if isinstance(values, Sequence) else [values])]
        if any(math.isnan(number) for number in numbers):
            return self.fail(f"its value is {numbers[0] if len(numbers) == 1 else numbers}")
        return self._tell(TrialState.COMPLETE, numbers, None)

    def fail(self, reason: str) -> None:
        """Record that the trial failed, and why."""
        self._tell(TrialState.FAIL, None, reason)

    def prune(self, reason: str) -> None:
        """Record that the trial was stopped early, and why."""
        self._tell(TrialState.PRUNED, None, reason)

    def _tell(self, state: TrialState, values: list[float] | None, reason: str | None) -> None:
        storage, study = self._storage, self._study
        self.renew()
        if not storage.get_trial(self._trial_id).state.is_finished():  # else an earlier answer got lost
            if reason is not None:
                self.set_attribute(REASON, reason)
            try:
                study.tell(self.trial, values, state=state)
            except (RuntimeError, ValueError):  # samplers stop a study whose grid is done, outside of `optimize` too
                if not storage.get_trial(self._trial_id).state.is_finished():
                    raise
        self._forget()


def finite(value: Any) -> Any:
    """The value with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
