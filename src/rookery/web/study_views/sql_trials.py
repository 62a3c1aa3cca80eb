"""Reads trials from Optuna's tables by plain SQL: in a SQLite file, or in PostgreSQL.

Optuna is not imported, which takes a second and more. All statements read; each reads the rows of a few thousand trials
at most, so that a search is not kept from writing. Ids and limits are numbers of ours, so they stand in the text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from rookery.console import printable
from rookery.errors import MissingExtra, StorageLost, StudyError
from rookery.studies.storage.rdb import postgres_options
from rookery.studies.storage.sqlite_file import open_to_read
from rookery.studies.storage.storage_place import StoragePlace
from rookery.studies.storage.stored_trials import FAIL_REASON, StoredTexts
from rookery.studies.storage.trial_attributes import STUDY_ID
from rookery.web.study_views.study_source import Row, StudyHead

MOST_TRIALS = 5_000  # of one statement
READ_SECONDS = 30  # after which PostgreSQL gives up a statement
TRIALS = "trial_id, number, state, datetime_start, datetime_complete"


class Connected(Protocol):
    """What opens a connection for reading; `mark` stands for a value in its statements."""

    mark: str
    where: str

    def open(self) -> Any: ...


class SqliteFile:
    """A SQLite file, opened again for every look: one that was deleted is noticed."""

    mark = "?"

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, printable(path)

    def open(self) -> Any:
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
        return psycopg.connect(self.place.url, autocommit=True, options=limits, **postgres_options(self.place))


class SqlTrials:
    """A study in Optuna's tables; `name` None is the only one there."""

    def __init__(self, database: Connected, name: str | None) -> None:
        self._database, self._name = database, name
        self._study = 0

    def head(self) -> StudyHead:
        with self._reading() as ask:
            self._study, name = self._find(ask)
            of_study = f"WHERE study_id = {self._study}"
            directions = ask(f"SELECT direction FROM study_directions {of_study} ORDER BY objective")  # noqa: S608
            attributes = ask(f"SELECT key, value_json FROM study_user_attributes {of_study}")  # noqa: S608
            first = ask(f"SELECT MIN(trial_id) FROM trials {of_study}")  # noqa: S608
        texts = StoredTexts()
        known = {str(key): texts.decoded(text) for key, text in attributes}
        key = f"{self._study} {name} {known.get(STUDY_ID)} {first[0][0]}"
        return StudyHead(key, tuple(direction == "MAXIMIZE" for (direction,) in directions), known)

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

    def param_names(self, trial: int) -> list[str]:
        with self._reading() as ask:
            found = ask(f"SELECT param_name FROM trial_params WHERE trial_id = {trial} ORDER BY param_id")  # noqa: S608
        return [str(name) for (name,) in found]

    def params(self, names: Sequence[str], first: int, last: int) -> list[Row]:
        """The database makes a row of the parameters of a trial: Python would take twice as long."""
        column = f", MAX(param_value) FILTER (WHERE param_name = {self._database.mark})"
        text = (
            f"SELECT trial_id, COUNT(*) {column * len(names)} FROM trial_params "  # noqa: S608
            f"WHERE trial_id BETWEEN {first} AND {last} GROUP BY trial_id ORDER BY trial_id"
        )
        with self._reading() as ask:
            return ask(text, tuple(names))

    def distribution(self, name: str, trial: int) -> str:
        text = f"SELECT distribution_json FROM trial_params WHERE trial_id = {trial} AND param_name = "  # noqa: S608
        with self._reading() as ask:
            found = ask(text + self._database.mark, (name,))
        return str(found[0][0]) if found else "{}"

    def intermediate(self, trials: Sequence[int]) -> list[Row]:
        columns = "trial_id, step, intermediate_value, intermediate_value_type"
        return self._of(f"SELECT {columns} FROM trial_intermediate_values WHERE", trials, "ORDER BY step")  # noqa: S608

    def attributes(self, trials: Sequence[int]) -> list[Row]:
        columns = "SELECT trial_id, key, value_json FROM"
        failed = f"{columns} trial_system_attributes WHERE key = '{FAIL_REASON}' AND"
        return self._of(f"{columns} trial_user_attributes WHERE", trials) + self._of(failed, trials)

    def close(self) -> None:
        """Connections are open only while they are used."""

    def _find(self, ask: Any) -> tuple[int, str]:
        mark = self._database.mark
        if self._name is None:
            found = ask("SELECT study_id, study_name FROM studies ORDER BY study_id")
        else:
            found = ask(f"SELECT study_id, study_name FROM studies WHERE study_name = {mark}", (self._name,))  # noqa: S608
        if len(found) != 1:
            names = ", ".join(printable(name)[:80] for _, name in found[:5])
            what = f"holds {len(found)} studies ({names})" if found else f"holds no study {self._name or ''}".rstrip()
            raise StudyError(f"{self._database.where} {what}")
        return int(found[0][0]), str(found[0][1])

    def _of(self, text: str, trials: Sequence[int], order: str = "") -> list[Row]:
        with self._reading() as ask:
            return [row for some in _parts(trials) for row in ask(f"{text} trial_id IN ({some}) {order}")]

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """A function that asks and returns rows. Each statement is a transaction of its own."""
        try:
            with closing(self._database.open()) as connection:
                yield lambda text, values=(): list(connection.execute(text, values).fetchall())
        except (sqlite3.Error, OSError) as error:
            raise StorageLost(f"{self._database.where} cannot be read: {error}") from None
        except StudyError:
            raise
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "psycopg":
                raise
            first = str(error).strip().partition("\n")[0]
            raise StorageLost(f"{self._database.where} cannot be read: {printable(first)}") from None


def _parts(trials: Iterable[int]) -> Iterator[str]:
    """Ids as texts for `IN (...)`, of which a statement takes some hundreds."""
    ids = [str(int(trial)) for trial in trials]
    for at in range(0, len(ids), 500):
        yield ",".join(ids[at : at + 500])
