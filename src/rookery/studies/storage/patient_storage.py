"""Optuna's storage for searches: it waits for a database that does not answer, and writes to a trial only while this
process has the trial's lease."""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from optuna.exceptions import OptunaError
from optuna.storages import BaseStorage, RDBStorage, get_storage
from sqlalchemy import NullPool, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from rookery.console import printable, say
from rookery.errors import LeaseLost, StorageLost, StudyError
from rookery.studies.storage.sqlite_file import open_to_write
from rookery.studies.storage.storage_place import StoragePlace

T = TypeVar("T")
Hook = Callable[[Any], None]  # takes the connection of a transaction
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
# SQLSTATE classes: connection, rollback by deadlock, resources such as the disk, object in use, shutdown and start.
PASSING_STATES = ("08", "40", "53", "55", "57", "25P03")
# What a server says that refuses this user for good; a failed connection carries no SQLSTATE.
REFUSED = re.compile(
    r"authentication failed|no password supplied|no pg_hba|does not exist|permission denied|certificate"
    r"|unsupported",
    re.IGNORECASE,
)
PASSING_SQLITE = re.compile(
    r"is locked|disk is full|disk I/O error|unable to open database|table is locked|locking protocol"
)
# A worker that is stopped in the middle of a transaction must not hold its locks forever.
POSTGRES_LIMITS = ("SET idle_in_transaction_session_timeout = '30s'", "SET lock_timeout = '30s'")


class Patience:
    """Calls that need a database, repeated until it answers.

    Args:
        place: The database. The file of a SQLite one must be there, and stay the same.
        seconds: For how long one call is retried.
    """

    def __init__(self, place: StoragePlace, seconds: float) -> None:
        self.place, self.seconds = place, seconds
        self._file = self._identity()

    @property
    def is_gone(self) -> bool:
        """Whether the database was a file that is not there any more."""
        return self._identity() != self._file

    def call(self, call: Callable[[], T]) -> T:
        """Call it until the database answers.

        Raises:
            StorageLost: It did not answer in time, or its file is gone.
            StudyError: It refuses for good.
        """
        started, pause = time.monotonic(), FIRST_PAUSE
        while True:
            try:
                result = call()
            except (SQLAlchemyError, OptunaError) as error:
                reason = self._passing_reason(error)
            else:
                self._check_file()  # what was written into a deleted file is lost
                return result
            waited = time.monotonic() - started
            if waited + pause > self.seconds:
                raise self._over(waited, reason)
            if pause == FIRST_PAUSE:
                say(f"the database {self.place.shown} cannot be used ({reason}): trying again for {self.seconds:.0f} s")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _passing_reason(self, error: Exception) -> str:
        """Why the database does not answer; raises what waiting does not help against."""
        cause = _driver_error(error)
        if cause is None:
            raise error
        self._check_file()
        if not _is_passing(cause, self.place):
            raise _refused(cause, self.place) from None
        return _why(cause, self.place)

    def _over(self, waited: float, reason: str) -> StorageLost:
        return StorageLost(
            f"the database {self.place.shown} could not be used for {waited:.0f} s ({reason}): finished trials are "
            "kept; when it works again, start the same search again to continue"
        )

    def _identity(self) -> tuple[int, int] | None:
        if self.place.file is None:
            return None
        try:
            found = self.place.file.stat()
        except OSError:
            return (0, 0)
        return found.st_dev, found.st_ino

    def _check_file(self) -> None:
        if self.is_gone:
            raise StorageLost(
                f"the database {self.place.shown} was deleted or replaced while it was in use: put a copy of it back, "
                "or start a search of another name"
            )


def _driver_error(error: BaseException | None) -> BaseException | None:
    """The error of the database's driver in a chain of causes; None if there is none."""
    while error is not None:
        if isinstance(error, DBAPIError):
            return error.orig
        if isinstance(error, SQLAlchemyError):  # of the pool of connections
            return error
        error = error.__cause__
    return None


def _is_passing(error: BaseException, place: StoragePlace) -> bool:
    """Whether the same call may succeed later: a lock, a full disk, a server that does not answer."""
    text = str(error)
    if place.file is not None:
        return bool(PASSING_SQLITE.search(text)) and place.file.exists()
    state = getattr(error, "sqlstate", None)
    if state is not None:
        return state.startswith(PASSING_STATES)
    return type(error).__name__ in ("OperationalError", "InterfaceError", "TimeoutError", "AdminShutdown") and not (
        REFUSED.search(text)
    )


def _why(error: BaseException, place: StoragePlace) -> str:
    """The reason in a few words."""
    text = str(error).strip()
    if place.file is None:
        return printable(text.splitlines()[0] if text else type(error).__name__)
    if not place.file.exists():
        return "the file is gone"
    for pattern, words in (("is full", "its disk is full"), ("is locked", "another process has locked it")):
        if pattern in text:
            return words
    return printable(text)


def _refused(error: BaseException, place: StoragePlace) -> StudyError:
    """The error for what waiting does not help against."""
    reason = _why(error, place)
    remedy = ""
    if "readonly" in reason:
        remedy = ": make the file and its folder writable, or give search.storage another place"
    elif "not a database" in reason or "malformed" in reason:
        remedy = ": the file is not a SQLite database, or is damaged; restore it from a copy"
    elif "password" in reason:
        remedy = ": give the password in the URL, or in the environment variable PGPASSWORD"
    return StudyError(f"the database {place.shown} cannot be used ({reason}){remedy}")


def _open_rdb(place: StoragePlace) -> RDBStorage:
    """Optuna's storage for this database. SQLite files are opened again for every transaction: a file that was deleted
    is noticed, and forked children share nothing."""
    place.check_driver()
    file = place.file
    if file is not None:
        options: dict[str, Any] = {"poolclass": NullPool, "creator": lambda: open_to_write(file)}
        url = f"sqlite:///{file}"
    else:
        options = {"pool_size": 2, "max_overflow": 8, "pool_pre_ping": True, "connect_args": place.connect_options}
        url = place.url.replace("postgresql://", "postgresql+psycopg://", 1)
    braces = url.replace("{", "{{").replace("}", "}}")  # Optuna formats the text
    storage = RDBStorage(braces, engine_kwargs=options)
    if place.file is None:
        event.listen(storage.engine, "connect", _limit)
        storage.engine.dispose()  # connections from before the limits
        _forget_in_children(storage.engine)
    return storage


def _forget_in_children(engine: Any) -> None:
    """A forked child opens connections of its own: two processes on one of them would read each other's answers."""
    reference = weakref.ref(engine)

    def forget() -> None:
        if (inherited := reference()) is not None:
            inherited.dispose(close=False)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)


def _limit(connection: Any, _record: Any) -> None:
    with connection.cursor() as cursor:
        for command in POSTGRES_LIMITS:
            cursor.execute(command)
    connection.commit()


def _read(name: str) -> Any:
    """A method of Optuna's storage, called until the database answers."""

    def method(self: PatientStorage, *args: Any, **options: Any) -> Any:
        return self.patiently(lambda: getattr(self._inner, name)(*args, **options))

    return method


def _write(name: str) -> Any:
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
        self._rdb = self.patiently(lambda: _open_rdb(patience.place))
        self._inner = get_storage(self._rdb)  # keeps finished trials in memory
        event.listen(self._rdb.scoped_session, "after_begin", self._begun)
        event.listen(self._rdb.scoped_session, "before_commit", self._committing)

    @property
    def dialect(self) -> str:
        """sqlite or postgresql."""
        return self._rdb.engine.dialect.name

    def close(self) -> None:
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

    create_new_study = _read("create_new_study")
    delete_study = _read("delete_study")
    set_study_user_attr = _read("set_study_user_attr")
    set_study_system_attr = _read("set_study_system_attr")
    get_study_id_from_name = _read("get_study_id_from_name")
    get_study_name_from_id = _read("get_study_name_from_id")
    get_study_directions = _read("get_study_directions")
    get_study_user_attrs = _read("get_study_user_attrs")
    get_study_system_attrs = _read("get_study_system_attrs")
    get_all_studies = _read("get_all_studies")
    create_new_trial = _read("create_new_trial")
    get_trial_id_from_study_id_trial_number = _read("get_trial_id_from_study_id_trial_number")
    get_trial = _read("get_trial")
    get_all_trials = _read("get_all_trials")
    get_best_trial = _read("get_best_trial")
    set_trial_param = _write("set_trial_param")
    set_trial_state_values = _write("set_trial_state_values")
    set_trial_intermediate_value = _write("set_trial_intermediate_value")
    set_trial_user_attr = _write("set_trial_user_attr")
    set_trial_system_attr = _write("set_trial_system_attr")
