"""Where the trials of a study are read from: Optuna's tables in a SQLite file or in another database, by plain SQL.

Optuna is not imported, which takes a second and more, and makes several objects of every row. All statements read; each
reads the rows of a few thousand trials at most, so that a search is not kept from writing. Ids and limits are numbers
of ours, so they stand in the text.
"""

from __future__ import annotations

import difflib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from rookery.console import printable
from rookery.errors import MissingExtra, StorageLost, StudyError
from rookery.studies.storage.sqlite_file import open_to_read
from rookery.studies.storage.storage_place import StoragePlace, shown
from rookery.studies.storage.trial_view import FAIL_REASON, FIXED_PARAMS, STUDY_ID

DAMAGED = (ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError, RecursionError)
SCHEMA = 12  # of Optuna's tables, since its version 3
MOST_TRIALS = 5_000  # of one statement
READ_SECONDS = 30  # after which PostgreSQL gives up a statement
SHOWN, MOST_COMPARED = 10, 1_000  # names in an error message, and those that may have been meant, which takes 0.1 s
MOST_BYTES = 350 << 20  # of the values of one study, in Python
# What a comma, a list and a dict of JSON take in Python, in bytes: 3 characters may become 64 bytes.
SIGNS = {",": 40, "[": 64, "{": 240}
TRIALS = "trial_id, number, state, datetime_start, datetime_complete"
Row = tuple[Any, ...]


@dataclass(frozen=True)
class StudyHead:
    """What a storage says of a study itself. `key` differs for another study that has taken the same name."""

    key: str
    name: str
    directions: tuple[bool, ...]  # for each objective whether it is maximised
    attributes: Mapping[str, Any] = field(default_factory=dict)


class TrialSource(Protocol):
    """A study in a storage. Trials are requested by their ids, which grow; `last` is the largest id known so far.

    Every method is short, so that no lock of the storage is held while a search wants to write.
    """

    def head(self) -> StudyHead:
        """The study now. StudyError if it is gone, StorageLost if its storage does not answer."""

    def trials(self, last: int, opened: Sequence[int]) -> list[Row]:
        """(id, number, state, start, end) of trials after `last` and of `opened` ones, by id; at most some thousands,
        and none once there are no more."""

    def values(self, first: int, last: int) -> list[Row]:
        """(id, objective, value, kind) of the trials with these ids, and perhaps of other studies' trials between them;
        kind is Optuna's, such as INF_POS."""

    def distributions(self, trial: int) -> list[Row]:
        """(name, distribution as JSON) of the parameters of a trial."""

    def params(self, names: Sequence[str], first: int, last: int) -> list[Row]:
        """(id, how many parameters, value of each name), by id, perhaps with other studies' trials. Choices are their
        places, None is a parameter that the trial does not have."""

    def intermediate(self, trials: Sequence[int]) -> list[Row]:
        """(id, step, value, kind), by step."""

    def attributes(self, trials: Sequence[int]) -> list[Row]:
        """(id, key, value as JSON) of these trials, Optuna's `fail_reason` and `fixed_params` too."""


class StoredTexts:
    """Decodes the JSON that one reading of a study finds, until that would take too much memory. Errors are among
    `DAMAGED`."""

    def __init__(self) -> None:
        self._bytes = 0

    def decoded(self, text: str) -> Any:
        self._bytes += len(text) + sum(size * text.count(sign) for sign, size in SIGNS.items())
        if self._bytes > MOST_BYTES:
            raise ValueError(f"its values take more than {MOST_BYTES >> 20} MB")
        return json.loads(text)


def find_study(studies: Sequence[tuple[Any, str]], name: str | None, where: str) -> tuple[Any, str]:
    """The study of this name, or the only one if that is None. StudyError says which there are."""
    names = sorted(each for _, each in studies)
    if name is None and len(names) > 1:
        raise StudyError(
            f"{where} holds {len(names)} studies: name one of them, such as `rookery study {names[0]:.80} "
            f"--storage {where}`; there are: {', '.join(printable(each)[:80] for each in names[:SHOWN])}"
        )
    found = next((each for each in studies if name in (None, each[1])), None)
    if found is None:
        which = "study" if name is None else f"study {name[:80]!r}"
        raise StudyError(f"there is no {which} in {where}{near_names(name or '', names) if names else ''}")
    return found


def near_names(name: str, names: Iterable[str]) -> str:
    """Names that may have been meant, for the end of an error message."""
    known = sorted(printable(name)[:80] for name in names)
    near = difflib.get_close_matches(name[:80], known[:MOST_COMPARED], 3)
    listed = ", ".join(known[:SHOWN]) + (", ..." if len(known) > SHOWN else "")
    return (f"; did you mean {' or '.join(near)}? There are" if near else "; there are") + f": {listed}"


# --- databases ----------------------------------------------------------------------------------------------------


class SqliteFile:
    """A SQLite file, opened again for every look: one that was deleted is noticed. `mark` stands for a value in its
    statements, and `errors` are what its driver raises if it cannot be read."""

    mark, errors = "?", (sqlite3.Error, OSError)

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, printable(path)

    def open(self) -> Any:
        if not os.path.lexists(self.path):
            raise FileNotFoundError("it does not exist (any more, or yet)")
        return open_to_read(self.path)


class PostgresDatabase:
    """A PostgreSQL database. Its connections cannot write."""

    mark = "%s"

    def __init__(self, place: StoragePlace) -> None:
        self.place, self.where = place, place.shown

    def open(self) -> Any:
        try:
            import psycopg
        except ImportError as error:
            raise MissingExtra(f"PostgreSQL needs psycopg ({error}): pip install 'rookery[postgres]'") from None
        limits = f"-c default_transaction_read_only=on -c statement_timeout={READ_SECONDS}s"
        return psycopg.connect(self.place.url, autocommit=True, options=limits, **self.place.connect_options)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        import psycopg

        return (psycopg.Error,)


class OtherDatabase:
    """Any other database that SQLAlchemy knows a driver of, such as MySQL."""

    mark = "%s"

    def __init__(self, url: str) -> None:
        self.url, self.where = url, shown(url)

    @cached_property
    def _engine(self) -> Any:
        try:
            from sqlalchemy import NullPool, create_engine
            from sqlalchemy.exc import SQLAlchemyError
        except ImportError as error:
            raise MissingExtra(f"{self.where} needs SQLAlchemy ({error}): pip install 'rookery[search]'") from None
        try:
            return create_engine(self.url, poolclass=NullPool)
        except ImportError as error:
            raise StudyError(f"{self.where} needs a driver that is not installed: {error}") from None
        except SQLAlchemyError as error:
            raise StudyError(f"{self.where} cannot be the URL of a database: {_first_line(error)}") from None

    def open(self) -> Any:
        return self._engine.raw_connection()

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (self._engine.dialect.dbapi.Error, OSError)


# --- Optuna's tables ----------------------------------------------------------------------------------------------


Database = SqliteFile | PostgresDatabase | OtherDatabase


class SqlTrials:
    """A study in Optuna's tables; `name` None is the only one there."""

    def __init__(self, database: Database, name: str | None) -> None:
        self._database, self._name = database, name
        self._study = 0

    def head(self) -> StudyHead:
        with self._reading() as ask:
            version = ask("SELECT schema_version FROM version_info")
            if version and version[0][0] != SCHEMA:
                raise StudyError(
                    f"{self._database.where} was written by a version of Optuna with other tables: `optuna storage "
                    "upgrade --storage URL` brings old ones up to date"
                )
            self._study, name = self._find(ask)
            of_study = f"WHERE study_id = {self._study}"
            directions = ask(f"SELECT direction FROM study_directions {of_study} ORDER BY objective")  # noqa: S608
            attributes = ask(f"SELECT a.key, a.value_json FROM study_user_attributes a {of_study}")  # noqa: S608
            first = ask(f"SELECT MIN(trial_id) FROM trials {of_study}")  # noqa: S608
        texts = StoredTexts()
        known = {str(key): texts.decoded(text) for key, text in attributes}
        key = f"{self._study} {name} {known.get(STUDY_ID)} {first[0][0]}"
        return StudyHead(key, name, tuple(direction == "MAXIMIZE" for (direction,) in directions), known)

    def _find(self, ask: Any) -> tuple[int, str]:
        studies = "SELECT study_id, study_name FROM studies"
        found = ask(f"{studies} WHERE study_name = {self._database.mark}", (self._name,)) if self._name else []
        study, name = find_study([(each, str(name)) for each, name in found or ask(studies)], self._name,
                                 self._database.where)  # fmt: skip
        return int(study), name

    def trials(self, last: int, opened: Sequence[int]) -> list[Row]:
        of_study = f"WHERE study_id = {self._study}"
        with self._reading() as ask:
            rows = ask(f"SELECT {TRIALS} FROM trials {of_study} AND trial_id > {last} "  # noqa: S608
                       f"ORDER BY trial_id LIMIT {MOST_TRIALS}")  # fmt: skip
            for some in _parts(opened):
                rows += ask(f"SELECT {TRIALS} FROM trials {of_study} AND trial_id IN ({some})")  # noqa: S608
        return rows

    def values(self, first: int, last: int) -> list[Row]:
        columns = "trial_id, objective, value, value_type"
        with self._reading() as ask:
            return ask(f"SELECT {columns} FROM trial_values WHERE trial_id BETWEEN {first} AND {last}")  # noqa: S608

    def distributions(self, trial: int) -> list[Row]:
        columns = "param_name, distribution_json"
        with self._reading() as ask:
            return ask(f"SELECT {columns} FROM trial_params WHERE trial_id = {trial} ORDER BY param_id")  # noqa: S608

    def params(self, names: Sequence[str], first: int, last: int) -> list[Row]:
        """The database makes a row of the parameters of a trial: Python would take twice as long."""
        column = f", MAX(CASE WHEN param_name = {self._database.mark} THEN param_value END)"
        text = (
            f"SELECT trial_id, COUNT(*) {column * len(names)} FROM trial_params "  # noqa: S608
            f"WHERE trial_id BETWEEN {first} AND {last} GROUP BY trial_id ORDER BY trial_id"
        )
        with self._reading() as ask:
            return ask(text, tuple(names))

    def intermediate(self, trials: Sequence[int]) -> list[Row]:
        columns = "trial_id, step, intermediate_value, intermediate_value_type"
        return self._of(f"SELECT {columns} FROM trial_intermediate_values WHERE", trials, "ORDER BY step")  # noqa: S608

    def attributes(self, trials: Sequence[int]) -> list[Row]:
        columns, keys = "SELECT a.trial_id, a.key, a.value_json FROM", (FAIL_REASON, FIXED_PARAMS)
        system = f"{columns} trial_system_attributes a WHERE a.key IN {keys} AND"  # samplers store much more there
        return self._of(f"{columns} trial_user_attributes a WHERE", trials) + self._of(system, trials)

    def _of(self, text: str, trials: Sequence[int], order: str = "") -> list[Row]:
        with self._reading() as ask:
            return [row for some in _parts(trials) for row in ask(f"{text} trial_id IN ({some}) {order}")]

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """A function that asks and returns rows. Each statement is a transaction of its own."""
        try:
            with closing(self._database.open()) as connection:

                def ask(text: str, values: Sequence[Any] = ()) -> list[Row]:
                    cursor = connection.cursor()
                    cursor.execute(text, values)
                    return list(cursor.fetchall())

                yield ask
        except (StudyError, MissingExtra):
            raise
        except self._database.errors as error:
            text = _first_line(error)
            raise StorageLost(f"{self._database.where} cannot be read: {text}{_remedy(text)}") from None


def _parts(trials: Iterable[int]) -> Iterator[str]:
    """Ids as texts for `IN (...)`, of which a statement takes some hundreds."""
    ids = [str(int(trial)) for trial in trials]
    for at in range(0, len(ids), 500):
        yield ",".join(ids[at : at + 500])


def _first_line(error: Exception) -> str:
    return printable(str(error).strip().partition("\n")[0])


def _remedy(text: str) -> str:
    if "no such table" in text or ("relation" in text and "does not exist" in text):
        return "; it holds no study of Optuna's, or it is being created"
    return "; another process is writing: try again" if "locked" in text else ""
