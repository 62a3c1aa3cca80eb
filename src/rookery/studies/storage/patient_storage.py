"""Optuna's storage for searches: it waits for a database that does not answer, and writes to a trial only while this
process has the trial's lease."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from optuna.storages import BaseStorage, get_storage
from sqlalchemy import event

from rookery.errors import LeaseLost, StudyError
from rookery.studies.storage.patience import Patience
from rookery.studies.storage.rdb import open_rdb

T = TypeVar("T")
Hook = Callable[[Any], None]  # takes the connection of a transaction


def read(name: str) -> Any:
    """A method of Optuna's storage, called until the database answers."""

    def method(self: PatientStorage, *args: Any, **options: Any) -> Any:
        return self.patiently(lambda: getattr(self._inner, name)(*args, **options))

    return method


def write(name: str) -> Any:
    """A method that changes a trial: its transaction begins with the check of the lease."""

    def method(self: PatientStorage, trial_id: int, *args: Any, **options: Any) -> Any:
        fence = self.fences.get(trial_id)
        if fence is None:
            raise LeaseLost("this process does not have the lease of the trial that it would change")
        with self.hooked(begin=fence):
            return self.patiently(lambda: getattr(self._inner, name)(trial_id, *args, **options))

    return method


class PatientStorage(BaseStorage):
    """What `StudyStore.study` reads and writes by.

    Args:
        patience: The database, and how long it is waited for.
    """

    def __init__(self, patience: Patience) -> None:
        self.patience = patience
        self.fences: dict[int, Hook] = {}  # by trial id: raises LeaseLost if the lease is lost
        self.complete = False  # set when the study has been opened: from then on nothing may be missing
        self._hooks = threading.local()
        self._rdb = self.patiently(lambda: open_rdb(patience.place))
        self._inner = get_storage(self._rdb)  # keeps finished trials in memory
        event.listen(self._rdb.scoped_session, "after_begin", self._begun)
        event.listen(self._rdb.scoped_session, "before_commit", self._committing)

    @property
    def dialect(self) -> str:
        """sqlite or postgresql."""
        return self._rdb.engine.dialect.name

    def close(self) -> None:
        """Close all connections."""
        self._rdb.remove_session()
        self._rdb.engine.dispose()

    def transaction(self, work: Callable[[Any], T]) -> T:
        """Run `work` with a connection, in a transaction of its own; it may run again if the answer gets lost."""

        def attempt() -> T:
            with self._rdb.engine.begin() as connection:
                return work(connection)

        return self.patiently(attempt)

    @contextmanager
    def hooked(self, begin: Hook | None = None, commit: Hook | None = None) -> Iterator[None]:
        """Within, transactions of this thread start with `begin` and end with `commit`. Their errors undo it."""
        before = getattr(self._hooks, "now", (None, None))
        self._hooks.now = (begin, commit)
        try:
            yield
        finally:
            self._hooks.now = before

    def patiently(self, call: Callable[[], T]) -> T:
        """Call it until the database answers, or the patience is over."""
        try:
            return self.patience.call(call)
        except KeyError as error:
            if not self.complete:
                raise
            raise StudyError(
                f"a study or trial is not in the database {self.patience.place.shown} any more ({error}): it was "
                "deleted by another program; start a search of another name"
            ) from None

    def _begun(self, _session: Any, _transaction: Any, connection: Any) -> None:
        begin, _ = getattr(self._hooks, "now", (None, None))
        if begin is not None:
            begin(connection)

    def _committing(self, session: Any) -> None:
        _, commit = getattr(self._hooks, "now", (None, None))
        if commit is not None:
            commit(session.connection())

    create_new_study = read("create_new_study")
    delete_study = read("delete_study")
    set_study_user_attr = read("set_study_user_attr")
    set_study_system_attr = read("set_study_system_attr")
    get_study_id_from_name = read("get_study_id_from_name")
    get_study_name_from_id = read("get_study_name_from_id")
    get_study_directions = read("get_study_directions")
    get_study_user_attrs = read("get_study_user_attrs")
    get_study_system_attrs = read("get_study_system_attrs")
    get_all_studies = read("get_all_studies")
    create_new_trial = read("create_new_trial")
    get_trial_id_from_study_id_trial_number = read("get_trial_id_from_study_id_trial_number")
    get_trial = read("get_trial")
    get_all_trials = read("get_all_trials")
    get_best_trial = read("get_best_trial")
    set_trial_param = write("set_trial_param")
    set_trial_state_values = write("set_trial_state_values")
    set_trial_intermediate_value = write("set_trial_intermediate_value")
    set_trial_user_attr = write("set_trial_user_attr")
    set_trial_system_attr = write("set_trial_system_attr")
