"""Opens the SQLite file of a study, which may be a stranger's.

A SQLite file can hold programs: a view under the name of a table may compute for ever, and a damaged file can repeat
one page without end. So only plain tables are accepted, every statement has a time limit, and values and rows have a
size limit.
`PRAGMA hard_heap_limit` is not used: it limits all of the process, also databases that are not ours, and cannot be
raised again.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rookery.console import printable
from rookery.errors import StudyError

BUSY_SECONDS = 5.0  # SQLite waits so long for another process before it says that the file is locked
READ_SECONDS, WRITE_SECONDS = 3.0, 60.0  # of computing, for one statement
WAITING = 3  # times as long may a statement take by the clock: drives are slow, and other processes compute too
ROWS = 1_000  # that are read at once
OPERATIONS = 5_000  # of SQLite's machine between two looks at the clock: about a millisecond
LONGEST_VALUE = 4 << 20  # bytes of one text; the longest that a search writes have some kilobytes
MOST_COLUMNS = 100  # of a table; Optuna's have up to five
MOST_BYTES = 350 << 20  # of all rows that one connection reads
ROW_BYTES = 250  # of a row of numbers, in Python
MOST_ENTRIES = 1_000  # tables and indexes; Optuna's are about 30
BESIDE = ("-journal", "-wal", "-shm")  # SQLite opens these by itself
JOURNAL_END = bytes.fromhex("d9d505f920a163d7")  # of a journal that names another journal
# Optuna's tables, and ours beside them.
TABLES = (
    "studies", "study_directions", "study_user_attributes", "study_system_attributes", "trials", "trial_values",
    "trial_params", "trial_intermediate_values", "trial_user_attributes", "trial_system_attributes",
    "trial_heartbeats", "version_info", "alembic_version", "rookery_leases",
)  # fmt: skip
PLAIN = ("CREATE TABLE ", "CREATE INDEX ", "CREATE UNIQUE INDEX ")  # SQLite writes the first words in this way


def open_to_read(file: Path) -> sqlite3.Connection:
    """A connection that cannot write, to a file that exists.

    Raises:
        StudyError: The file is not a regular one, or has more than plain tables.
        sqlite3.Error: It is not a database, locked, or its answer takes too long.
    """
    return _opened(file, "ro", READ_SECONDS)


def open_to_write(file: Path) -> sqlite3.Connection:
    """A connection to a file that exists: SQLite would make a new one where it was deleted. Raises like
    `open_to_read`."""
    return _opened(file, "rw", WRITE_SECONDS)


class _Cursor(sqlite3.Cursor):
    """Begins the time of a statement, and counts what it reads. Rows are read by the thousand, as every call of SQLite
    is timed."""

    connection: _Connection
    _ready: Iterator[Any] = iter(())

    def execute(self, *arguments: Any) -> _Cursor:
        return self._begin(super().execute, *arguments)

    def executemany(self, *arguments: Any) -> _Cursor:
        return self._begin(super().executemany, *arguments)

    def fetchone(self) -> Any:
        return next(self, None)

    def fetchmany(self, size: int | None = None) -> list[Any]:
        return list(islice(self._rows(), size or self.arraysize))

    def fetchall(self) -> list[Any]:
        return list(self._rows())

    def __next__(self) -> Any:
        for row in self._ready:
            return row
        rows: list[Any] = self._bounded(super().fetchmany, ROWS)
        self.connection.count(rows)
        self._ready = iter(rows)
        return next(self._ready)

    def _rows(self) -> Iterator[Any]:
        while True:
            yield from self._ready
            try:
                yield next(self)
            except StopIteration:
                return

    def _begin(self, call: Any, *arguments: Any) -> _Cursor:
        self._ready = iter(())
        self.connection.begin()
        self._bounded(call, *arguments)
        return self

    def _bounded(self, call: Any, *arguments: Any) -> Any:
        try:
            with self.connection.computing():
                return call(*arguments)
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise
            seconds = self.connection.seconds
            raise sqlite3.OperationalError(f"it gave no answer for {seconds:g} s, and was given up") from None


class _Connection(sqlite3.Connection):
    """A connection with limits; `seconds` are those of one statement."""

    seconds, is_checked = READ_SECONDS, False

    def limit(self, seconds: float) -> None:
        self.seconds, self._bytes = seconds, 0
        self._spent, self._began = (0.0, 0.0), (time.thread_time(), time.monotonic())
        self.set_progress_handler(self._is_over, OPERATIONS)
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        self.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, MOST_COLUMNS)
        self.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):  # as SQLite's authors advise
            self.execute(f"PRAGMA {setting}").close()

    def cursor(self, factory: Any = _Cursor) -> Any:
        return super().cursor(factory)

    def begin(self) -> None:
        """Begin the time of a statement. Until the tables were checked, all statements share one."""
        if self.is_checked:
            self._spent = 0.0, 0.0

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Within, SQLite computes. What Python does with the rows in the meantime does not count."""
        self._began = time.thread_time(), time.monotonic()
        try:
            yield
        finally:
            self._spent = self._times()

    def count(self, rows: list[Any]) -> None:
        """Refuse to read on once all rows together are too large."""
        texts = [value for row in rows for value in row if value.__class__ in (str, bytes)]
        self._bytes += ROW_BYTES * len(rows) + sum(map(sys.getsizeof, texts))
        if self._bytes > MOST_BYTES:
            raise sqlite3.DataError(f"it has more than {MOST_BYTES >> 20} MB of rows, too many for a study")

    def _is_over(self) -> bool:
        computed, passed = self._times()
        return computed > self.seconds or passed > WAITING * self.seconds

    def _times(self) -> tuple[float, float]:
        """What the statement has taken so far: of computing, and by the clock."""
        (computed, passed), (began, moment) = self._spent, self._began
        return computed + time.thread_time() - began, passed + time.monotonic() - moment


def _opened(file: Path, mode: str, seconds: float) -> sqlite3.Connection:
    real = Path(os.path.realpath(file))
    _check_files(file, real)
    connection = sqlite3.connect(
        f"file:{quote(str(real))}?mode={mode}", uri=True, timeout=BUSY_SECONDS, check_same_thread=False,
        factory=_Connection,
    )  # fmt: skip
    try:
        connection.limit(READ_SECONDS)
        _check_schema(file, connection)
        connection.is_checked, connection.seconds = True, seconds
    except BaseException:
        connection.close()
        raise
    return connection


def _check_files(file: Path, real: Path) -> None:
    """Refuse what would block, such as a pipe, or lead elsewhere, such as a link beside the database."""
    with suppress(FileNotFoundError):  # SQLite says so
        if not stat.S_ISREG(os.stat(real).st_mode):
            raise StudyError(f"{printable(file)} is not a regular file, and cannot be the database of a study")
    for ending in BESIDE:
        beside = real.with_name(real.name + ending)
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(beside).st_mode):
                raise StudyError(
                    f"{printable(beside)} is a link or not a regular file, which SQLite would open with the database: "
                    "remove it"
                )
    _check_journal(real.with_name(f"{real.name}-journal"))


def _check_journal(journal: Path) -> None:
    """Refuse the rest of a transaction over several files: SQLite would delete the file that it names."""
    with suppress(FileNotFoundError), open(journal, "rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - len(JOURNAL_END)))
        if opened.read() == JOURNAL_END:
            raise StudyError(
                f"{printable(journal)} belongs to a transaction over several databases, which a search never begins: "
                "remove it, or restore the database from a copy"
            )


def _check_schema(file: Path, connection: sqlite3.Connection) -> None:
    """Refuse a file with more than plain tables. SQLite reads the statements alone: the columns `type` and `name` of
    its list may lie."""
    for count, (name, text) in enumerate(_entries(connection)):
        if count >= MOST_ENTRIES:
            raise StudyError(f"{printable(file)} has more than {MOST_ENTRIES:,} tables, too many for a study")
        if text is not None and not str(text).startswith(PLAIN):
            what = printable(" ".join(str(text)[:40].split()[:3]))
            raise StudyError(
                f"{printable(file)} has more than plain tables ({printable(name)[:60]}: {what} ...), which a study of "
                "Optuna does not: a view or a trigger of a stranger may compute for ever, so the file is not read"
            )
    for table in TABLES:
        columns = connection.execute(f"PRAGMA table_xinfo({table})").fetchall()
        computed = [printable(column[1])[:60] for column in columns if column[6]]
        if computed:
            raise StudyError(f"{printable(file)} computes the column {computed[0]} of {table}, so it is not read")


def _entries(connection: sqlite3.Connection) -> Iterator[tuple[Any, Any]]:
    with closing(connection.execute("SELECT name, sql FROM sqlite_master")) as cursor:
        yield from cursor
