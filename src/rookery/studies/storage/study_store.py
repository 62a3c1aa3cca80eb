"""A study as its workers see it: they claim trials, and what they record survives their death. A `Claim` is a trial
that this worker trains: what is known about it, and what is recorded about it."""

from __future__ import annotations

import math
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import optuna
from optuna.trial import TrialState

from rookery.config.schema import RunConfig
from rookery.errors import LeaseLost, StudyError
from rookery.monitor.jsonl import plain
from rookery.studies.space.samplers import make_pruner, make_sampler
from rookery.studies.space.space import SearchSpace
from rookery.studies.storage.leases import Begun, Lease, Leases, NothingToBegin, describe_owner, owner_is_dead
from rookery.studies.storage.patient_storage import PatientStorage
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_opening import one_at_a_time, open_study_storage
from rookery.studies.storage.trial_view import PARTS, REASON, SETTINGS, verified_key

LEASE_SECONDS = 60.0  # a worker that is not heard of for so long loses its trial
PATIENCE_SECONDS = 300.0  # for which a database that does not answer is retried
MOST_ATTEMPTS = 20  # workers that may die in a trial before it counts as failed, unless it gets on


class StudyStore:
    """One study in its database. Use it in one process; others open it for themselves.

    >>> store = StudyStore.open(folder, None, config, sampler)                              # doctest: +SKIP
    >>> while (claim := store.claim("worker 1", n_trials=100)) is not None:                 # doctest: +SKIP
    ...     with claim.keep():
    ...         settings = claim.suggest(space.suggest)
    ...         claim.finish(value_of(settings))
    """

    def __init__(self, folder: StudyFolder, storage: PatientStorage, study: optuna.Study, leases: Leases) -> None:
        self.folder, self.storage, self.study, self.leases = folder, storage, study, leases

    @classmethod
    def open(
        cls,
        folder: StudyFolder,
        storage: str | None = None,
        config: RunConfig | None = None,
        sampler: optuna.samplers.BaseSampler | None = None,
        *,
        directions: Sequence[str] = ("maximize",),
        pruner: optuna.pruners.BasePruner | None = None,
        lease_seconds: float = LEASE_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> StudyStore:
        """Open a study, and make it if there is none.

        Args:
            folder: The study's folder, from `StudyFolder.create`.
            storage: A database elsewhere, with its password; without, the one that the folder names.
            config: What the trials vary; a study that was made with another one is rejected. None takes the study's.
            sampler: How settings are chosen; none is needed to look at a study.
            directions: "maximize" or "minimize" for each objective.
            pruner: What stops trials early; without, nothing does.
            lease_seconds: A worker that is not heard of for so long loses its trial.
            patience: Seconds for which a database that does not answer is retried.

        Raises:
            StudyError: The study cannot be continued; the message says what differs.
            StorageLost: The database does not answer.
        """
        opened = open_study_storage(folder, storage, config, directions, patience)
        study = optuna.load_study(
            study_name=folder.name, storage=opened, sampler=sampler, pruner=pruner or optuna.pruners.NopPruner()
        )
        leases = Leases(study._study_id, opened.dialect, lease_seconds)
        opened.transaction(leases.create_table)
        return cls(folder, opened, study, leases)

    def close(self) -> None:
        """Close the database. Claims that are held stay until their lease runs out."""
        self.storage.close()

    def __enter__(self) -> StudyStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- trials -------------------------------------------------------------------------------------------------

    def enqueue(self, params: Iterable[Mapping[str, Any]]) -> None:
        """Queue parameters to be tried first. Those that the study has tried or queued already are omitted."""
        with one_at_a_time(self.storage.patience):
            for each in params:
                self.study.enqueue_trial(dict(each), skip_if_exists=True)

    def claim(self, owner: str, n_trials: int) -> Claim | None:
        """The next trial for this worker: one whose worker died, or one from the queue, or a new one.

        Args:
            owner: A name of this worker, for people who read the table.
            n_trials: Number of trials that may begin in all, with those that have ended.

        Returns:
            None if there is nothing to begin; others may still be at work: see `all_done`.
        """
        about = describe_owner(owner)
        for way in (self._take_abandoned, self._begin_waiting, self._begin_new):
            token = uuid.uuid4().hex
            trial_id = way(token, about, n_trials)
            if trial_id is not None:
                return self._claim(trial_id, token)
        return None

    def _claim(self, trial_id: int, token: str) -> Claim:
        self.study.get_trials(deepcopy=False)  # Optuna writes only to trials that it has read
        return Claim(self.study, self.storage, self.leases, trial_id, token)

    def all_done(self, n_trials: int) -> bool:
        """Whether nothing is left to begin or to wait for."""
        if any(self.storage.transaction(self.leases.running)):
            return False
        states = [trial.state for trial in self.study.get_trials(deepcopy=False)]
        return sum(state != TrialState.WAITING for state in states) >= n_trials

    def _take_abandoned(self, token: str, owner: str, n_trials: int) -> int | None:
        for lease in self.storage.transaction(self.leases.running):
            if lease.trial_id in self.storage.fences or not (lease.expired or owner_is_dead(lease.owner)):
                continue
            if lease.attempts >= MOST_ATTEMPTS:
                self._give_up(lease, owner)
            elif self._take(lease, token, owner):
                return lease.trial_id
        return None

    def _give_up(self, lease: Lease, owner: str) -> None:
        token = uuid.uuid4().hex
        if self._take(lease, token, owner):
            self._claim(lease.trial_id, token).fail(f"{lease.attempts} workers died while they trained it")

    def _take(self, lease: Lease, token: str, owner: str) -> bool:
        def work(connection: Any) -> bool:
            try:
                self.leases.check_token_is_new(connection, token)
            except Begun:
                return True
            return self.leases.take(connection, lease, token, owner)

        return self.storage.transaction(work)

    def _begin_waiting(self, token: str, owner: str, n_trials: int) -> int | None:
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            trial_id = trial._trial_id

            def begin(connection: Any, trial_id: int = trial_id) -> None:
                self._make_room(connection, token, n_trials)
                self.leases.check_waiting(connection, trial_id)
                self.leases.insert(connection, trial_id, token, owner)

            self.storage.fences[trial_id] = begin
            try:
                self.storage.set_trial_state_values(trial_id, TrialState.RUNNING)
                return trial_id
            except NothingToBegin:
                continue
            except Begun:
                return trial_id
            finally:
                del self.storage.fences[trial_id]
        return None

    def _begin_new(self, token: str, owner: str, n_trials: int) -> int | None:
        try:
            with self.storage.hooked(
                begin=lambda connection: self._make_room(connection, token, n_trials),
                commit=lambda connection: self.leases.insert(connection, None, token, owner),
            ):
                return self.storage.create_new_trial(self.study._study_id)
        except NothingToBegin:
            return None
        except Begun as begun:
            return int(begun.args[0])

    def _make_room(self, connection: Any, token: str, n_trials: int) -> None:
        self.leases.lock_study(connection)
        self.leases.check_token_is_new(connection, token)
        self.leases.check_room(connection, n_trials)

    # --- what is recorded ---------------------------------------------------------------------------------------

    def attributes(self, number: int) -> dict[str, Any]:
        """The user attributes of a trial."""
        storage = self.storage
        trial_id = storage.get_trial_id_from_study_id_trial_number(self.study._study_id, number)
        return dict(storage.get_trial(trial_id).user_attrs)

    def set_verified(self, number: int, about: Mapping[str, Any]) -> None:
        """Record what a trial reached with held-out seeds."""
        self.set_attribute(verified_key(number), about)

    def set_attribute(self, key: str, value: Any) -> None:
        """Record a user attribute of the study. Optuna drops one of two that are written at once, so one waits."""
        with self.storage.hooked(begin=self.leases.lock_study):
            self.study.set_user_attr(key, plain(value))


class Claim:
    """A trial under a lease, from `StudyStore.claim`.

    All that is written is rejected with `LeaseLost` once another worker has the trial; that holds for `trial` too,
    which is Optuna's. While the database does not answer, writing waits, and ends with `StorageLost`.
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

    def lost_a_worker(self) -> bool:
        """Whether a worker has died while it trained this trial."""
        leases = self._storage.transaction(self._leases.running)
        return any(lease.trial_id == self._trial_id and lease.attempts > 1 for lease in leases)

    def release(self) -> None:
        """Give the trial back unfinished: the next worker that asks continues from its checkpoints."""
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
        self._storage.set_trial_user_attr(self._trial_id, key, plain(value))

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


def open_store(folder: StudyFolder, base: RunConfig, storage: str | None = None) -> StudyStore:
    """The study with the sampler and the pruner of its configuration."""
    search = base.search
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # its notes are for programs that call it
    directions = ["maximize"] if search.objectives == "value" else ["maximize", "minimize"]
    return StudyStore.open(
        folder, storage or search.storage, base, make_sampler(search, SearchSpace.of(base)), directions=directions,
        pruner=make_pruner(search, base.steps),
    )  # fmt: skip
