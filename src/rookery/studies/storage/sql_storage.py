"""Reads studies from Optuna's tables in a SQLite file or another database.

Optuna itself makes several objects for every row, which takes seconds for 10,000 trials. These few queries take a tenth
of that, and trials that have ended are read once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, NullPool, column, create_engine, select, table
from sqlalchemy.exc import SQLAlchemyError

from rookery.console import printable
from rookery.errors import StorageLost, StudyError
from rookery.studies.storage.sqlite_file import open_to_read
from rookery.studies.storage.stored_trials import (
    DAMAGED,
    FAIL_REASON,
    FIXED_PARAMS,
    STATES,
    StoredStudy,
    StoredTexts,
    StoredTrial,
)

SCHEMA = 12  # of Optuna's tables, since its version 3
MOST_NAMED = 500  # trials that a query names one by one
SPECIAL = {"INF_POS": math.inf, "INF_NEG": -math.inf}
VALUES = ("trial_values", "objective", "value", "value_type")
PARAMS = ("trial_params", "param_name", "param_value", "distribution_json")
USER = ("trial_user_attributes", "key", "value_json")
SYSTEM = ("trial_system_attributes", "key", "value_json")
Row = tuple[Any, ...]
Details = Mapping[str, Mapping[int, list[Row]]]  # by table and by the id of a trial


class SqlStorage:
    """A database of Optuna's, or a SQLite file, which is opened for reading only."""

    def __init__(self, storage: str | Path) -> None:
        self._file = storage if isinstance(storage, Path) else None
        self._where = printable(storage if self._file else str(storage).rpartition("@")[2])  # without a password
        self._ended: dict[int, StoredTrial] = {}  # by the id of the trial
        options: dict[str, Any] = {"isolation_level": "REPEATABLE READ"}
        if (file := self._file) is not None:
            storage, options = "sqlite://", {"creator": lambda: open_to_read(file)}
        try:
            self._engine = create_engine(_with_driver(str(storage)), poolclass=NullPool, **options)
        except SQLAlchemyError as error:
            raise StudyError(f"{self._where} cannot be the URL of a database: {_first_line(error)}") from None

    def names(self) -> list[str]:
        with self._transaction() as connection:
            return sorted(str(name) for (name,) in connection.execute(_select("studies", "study_name")))

    def read(self, name: str) -> StoredStudy | None:
        with self._transaction() as connection:
            self._check_version(connection)
            found = connection.execute(_select("studies", "study_id").where(column("study_name") == name)).first()
            if found is None:
                return None
            (study,) = found
            of_study = column("study_id") == study
            directions = _select("study_directions", "direction").where(of_study).order_by(column("objective"))
            maximised = tuple(direction == "MAXIMIZE" for (direction,) in connection.execute(directions))
            attributes = connection.execute(_select("study_user_attributes", "key", "value_json").where(of_study)).all()
            columns = ("trial_id", "number", "state", "datetime_start", "datetime_complete")
            trials = connection.execute(_select("trials", *columns).where(of_study).order_by(column("number"))).all()
            details = _details(connection, study, [row[0] for row in trials if row[0] not in self._ended])
        texts = StoredTexts()
        try:
            made = [self._trial(tuple(row), details, texts) for row in trials]
            return StoredStudy(maximised, _decoded(attributes, texts), made)
        except DAMAGED as error:
            raise StudyError(
                f"the study {name!r} in {self._where} is damaged, or of another version of Optuna "
                f"({type(error).__name__}: {printable(error)[:200]})"
            ) from None

    def close(self) -> None:
        self._engine.dispose()

    def _trial(self, row: Row, details: Details, texts: StoredTexts) -> StoredTrial:
        known = self._ended.get(row[0])
        if known is not None:
            return known
        made = _stored_trial(row, details, texts)
        if made.state not in ("waiting", "running"):
            self._ended[row[0]] = made
        return made

    def _check_version(self, connection: Connection) -> None:
        found = connection.execute(_select("version_info", "schema_version")).first()
        if found is not None and found[0] != SCHEMA:
            raise StudyError(
                f"{self._where} was written by a version of Optuna with other tables: `optuna storage upgrade "
                "--storage URL` brings old ones up to date"
            )

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Queries within see one state of the database."""
        if self._file is not None and not self._file.exists():
            raise StorageLost(f"{self._where} does not exist (any more, or yet)")
        try:
            with self._engine.connect() as connection:
                if self._file is not None:
                    connection.exec_driver_sql("BEGIN")  # the driver begins one before writes only
                yield connection
        except ImportError as error:
            raise StudyError(f"{self._where} needs a driver that is not installed: {error}") from None
        except SQLAlchemyError as error:
            raise StorageLost(f"{self._where} cannot be read: {_first_line(error)}{_remedy(error)}") from None


def _with_driver(url: str) -> str:
    """PostgreSQL through psycopg 3, unless the URL names another driver."""
    for scheme in ("postgresql://", "postgres://"):
        if url.startswith(scheme):
            return "postgresql+psycopg://" + url.removeprefix(scheme)
    return url


def _select(name: str, *columns: str) -> Any:
    return select(*map(column, columns)).select_from(table(name))


def _details(connection: Connection, study: int, wanted: list[int]) -> Details:
    """The rows of four tables that belong to the wanted trials."""
    trials = table("trials", column("trial_id"), column("study_id"))
    found: dict[str, dict[int, list[Row]]] = {}
    for name, *columns in (VALUES, PARAMS, USER, SYSTEM) if wanted else ():
        rows = table(name, column("trial_id"), *map(column, columns))
        query = select(*rows.c)
        if len(wanted) > MOST_NAMED:
            query = query.join_from(rows, trials, rows.c.trial_id == trials.c.trial_id)
            query = query.where(trials.c.study_id == study, rows.c.trial_id >= min(wanted))
        else:
            query = query.where(rows.c.trial_id.in_(wanted))
        if name == SYSTEM[0]:  # samplers store much more there
            query = query.where(rows.c.key.in_((FAIL_REASON, FIXED_PARAMS)))
        by_trial: dict[int, list[Row]] = defaultdict(list)
        for trial, *values in connection.execute(query):
            by_trial[trial].append(tuple(values))
        found[name] = by_trial
    return found


def _stored_trial(row: Row, details: Details, texts: StoredTexts) -> StoredTrial:
    """SQLite stores anything in any column, so numbers are made sure to be numbers."""
    trial, number, state, started, ended = row
    values = {objective: _value(value, kind) for objective, value, kind in details[VALUES[0]].get(trial, ())}
    system = _decoded(details[SYSTEM[0]].get(trial, ()), texts)
    distributions, params = {}, {}
    for name, value, text in details[PARAMS[0]].get(trial, ()):
        distributions[name] = texts.distribution(text)
        params[name] = distributions[name].to_external_repr(value)
    return StoredTrial(
        number=int(number),
        state=STATES[state],
        values=tuple(values[objective] for objective in sorted(values)),
        params=params or system.get(FIXED_PARAMS) or {},
        distributions=distributions,
        attributes=_decoded(details[USER[0]].get(trial, ()), texts),
        fail_reason=system.get(FAIL_REASON),
        started=_time(started),
        ended=_time(ended),
    )


def _decoded(rows: Any, texts: StoredTexts) -> dict[str, Any]:
    return {str(key): texts.decoded(value) for key, value in rows}


def _value(value: Any, kind: str) -> float:
    return SPECIAL[kind] if kind in SPECIAL else math.nan if value is None else float(value)


def _time(value: Any) -> datetime | None:
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    if found is not None and not isinstance(found, datetime):
        raise ValueError(f"{found!r:.60} is not a time")
    return found if found is None else found.replace(tzinfo=None)


def _first_line(error: SQLAlchemyError) -> str:
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]


def _remedy(error: SQLAlchemyError) -> str:
    text = str(error)
    if "no such table" in text or "UndefinedTable" in text:
        return "; it holds no study of Optuna's, or it is being created"
    if "locked" in text:
        return "; another process is writing: try again"
    return ""
