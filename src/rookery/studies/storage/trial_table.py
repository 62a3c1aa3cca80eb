"""All trials of a study as columns, of which only new ones are read: for the command, the report and the dashboard.

A trial that has ended does not change any more. So each look reads the trials that came since the last one, and those
that were open then. Every trial has the number of the look that changed it, by which a page asks for what it lacks.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.errors import FileError, MissingExtra, StorageLost, StudyError
from rookery.files import open_plain, read_plain
from rookery.studies.storage.storage_place import POSTGRES, StoragePlace
from rookery.studies.storage.trial_sources import (
    DAMAGED,
    MOST_BYTES,
    SIGNS,
    OtherDatabase,
    PostgresDatabase,
    Row,
    SqliteFile,
    SqlTrials,
    StoredTexts,
    StudyHead,
    TrialSource,
    find_study,
)
from rookery.studies.storage.trial_view import FAIL_REASON, FIXED_PARAMS, Distribution, State

# Reads trials from a journal file of Optuna's, such as rl_zoo3 writes for `--storage FILE.log`. Optuna is imported.

LARGEST = 64 << 20  # bytes of a journal; 10,000 trials take some 20 MB
UNREADABLE = (OSError, AssertionError, FileError, *DAMAGED)


class JournalTrials:
    """A study in a journal; `name` None is the only one there. The id of a trial is its number and 1."""

    def __init__(self, path: Path, name: str | None) -> None:
        self._path, self._name = path, name
        self._journal: Any = None
        self._trials: list[Any] = []

    def head(self) -> StudyHead:
        found = self._studies()
        study, name = find_study([(each, each.study_name) for each in found], self._name, printable(self._path))
        self._trials = self._journal.get_all_trials(study._study_id, deepcopy=False)
        maximised = tuple(direction.name == "MAXIMIZE" for direction in study.directions)
        return StudyHead(f"{study._study_id} {name}", name, maximised, study.user_attrs)

    def _studies(self) -> list[Any]:
        """Optuna's own view of the studies. It reads what was appended since the last time."""
        if not self._path.exists():
            raise StorageLost(f"{printable(self._path)} is gone")
        try:
            _check_size(self._path)
            self._journal = self._journal or _open_journal(self._path)
            return list(self._journal.get_all_studies())
        except UNREADABLE as error:
            why = f"{type(error).__name__}: {printable(error)[:200]}"
            raise StorageLost(f"{printable(self._path)} cannot be read as a journal of Optuna ({why})") from None

    def trials(self, last: int, opened: Sequence[int]) -> list[Row]:
        wanted = [*range(last + 1, len(self._trials) + 1), *opened]
        return [
            (each, trial.number, trial.state.name, trial.datetime_start, trial.datetime_complete)
            for each, trial in self._of(wanted)
        ]

    def values(self, first: int, last: int) -> list[Row]:
        return [
            (each, objective, value, "FINITE")
            for each, trial in self._of(range(first, last + 1))
            for objective, value in enumerate(trial.values or ())
        ]

    def distributions(self, trial: int) -> list[Row]:
        from optuna.distributions import distribution_to_json

        return [(name, distribution_to_json(each)) for name, each in self._trials[trial - 1].distributions.items()]

    def params(self, names: Sequence[str], first: int, last: int) -> list[Row]:
        return [
            (each, len(trial.params), *(_stored_value(trial, name) for name in names))
            for each, trial in self._of(range(first, last + 1))
        ]

    def intermediate(self, trials: Sequence[int]) -> list[Row]:
        return [
            (each, step, value, "FINITE")
            for each, trial in self._of(trials)
            for step, value in sorted(trial.intermediate_values.items())
        ]

    def attributes(self, trials: Sequence[int]) -> list[Row]:
        found = []
        for each, trial in self._of(trials):
            system = {key: trial.system_attrs[key] for key in (FAIL_REASON, FIXED_PARAMS) if key in trial.system_attrs}
            found += [(each, key, json.dumps(value)) for key, value in {**trial.user_attrs, **system}.items()]
        return found

    def _of(self, ids: Iterable[int]) -> list[tuple[int, Any]]:
        return [(each, self._trials[each - 1]) for each in ids]


def _open_journal(path: Path) -> Any:
    try:
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError as error:
        raise MissingExtra(f"journals are read by Optuna ({error}): pip install 'rookery[search]'") from None
    return JournalStorage(JournalFileBackend(str(path)))


def _check_size(path: Path) -> None:
    """Refuse a journal whose values would take too much memory."""
    data = read_plain(path, LARGEST)
    if sum(size * data.count(sign.encode()) for sign, size in SIGNS.items()) > MOST_BYTES:
        raise FileError(f"its values take more than {MOST_BYTES >> 20} MB")


def _stored_value(trial: Any, name: str) -> float | None:
    """As a database of Optuna's holds it."""
    return float(trial.distributions[name].to_internal_repr(trial.params[name])) if name in trial.params else None


STATE_NAMES: tuple[State, ...] = ("finished", "running", "pruned", "failed", "waiting")
FINISHED, RUNNING, PRUNED, FAILED, WAITING = range(5)
CODES = {"COMPLETE": FINISHED, "RUNNING": RUNNING, "PRUNED": PRUNED, "FAIL": FAILED, "WAITING": WAITING}  # Optuna's
SPECIAL = {"INF_POS": np.inf, "INF_NEG": -np.inf, "NAN": np.nan}
NEAR = 100  # ids: trials not farther apart are read by one statement
AT_ONCE = 5_000  # ids of one statement
MOST_PARAMS = 500  # columns; a study with more of them shows the first
MOST_TRIALS, MOST_CELLS, MOST_DIRECTIONS = 1_000_000, 20_000_000, 100  # so that a study takes up to some 300 MB
Floats = np.ndarray[Any, np.dtype[np.float64]]


class TrialTable:
    """The columns, by the ids of the trials. `refresh` brings them up to date."""

    def __init__(self, source: TrialSource, seconds: float = math.inf) -> None:
        """A look that takes longer than these seconds is given up; the first one at 50,000 trials takes one or two."""
        self.source, self._seconds_of_a_look = source, seconds
        self.head = StudyHead("", "", ())
        self._begin()

    def _begin(self) -> None:
        self.epoch, self.revision = secrets.token_hex(4), 0
        self.ids = np.empty(0, np.int64)
        self.number, self.state, self.changed = np.empty(0, np.int32), np.empty(0, np.int8), np.empty(0, np.int32)
        self.start: Floats = np.empty(0)
        self.end: Floats = np.empty(0)
        self.values: Floats = np.empty((0, max(1, len(self.head.directions))))
        self.params: dict[str, Floats] = {}
        self.distributions: dict[str, Distribution] = {}
        self._params_until = 0  # ids up to this one have their parameters
        self._offset: float | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def open(self) -> np.ndarray[Any, Any]:
        """Where trials run or wait."""
        return (self.state == RUNNING) | (self.state == WAITING)

    def refresh(self, with_params: bool = True) -> None:
        """Read what is new. Parameters are many, and a list of studies does not need them."""
        self._until = time.monotonic() + self._seconds_of_a_look
        head = self.source.head()
        if len(head.directions) > MOST_DIRECTIONS:
            raise StudyError(f"the study has more than {MOST_DIRECTIONS} objectives")
        if head.key != self.head.key:
            self.head = head
            self._begin()
        self.head = head
        before = self._last
        opened = self.ids[self.open]
        self.revision += 1
        rows = self.source.trials(before, [int(each) for each in opened])
        while rows:
            self._check()
            known = self._last
            self._take(rows)
            rows = self.source.trials(self._last, []) if self._last > known else []
        for first, last in self._spans(before, opened):
            self._check()
            self._take_values(self.source.values(first, last))
        if with_params:
            self._read_params(list(self._spans(self._params_until, opened)))
            self._params_until = self._last

    def _check(self) -> None:
        """Give up what takes too long or has too many trials."""
        if time.monotonic() > self._until:
            raise StorageLost(f"the study was not read within {self._seconds_of_a_look:.0f} s")
        if len(self) > MOST_TRIALS or len(self) * len(self.params) > MOST_CELLS:
            raise StudyError(f"the study has {len(self):,} trials with {len(self.params)} parameters, too many to show")

    def _read_params(self, spans: Sequence[tuple[int, int]]) -> None:
        """Two at a time, once the first has told the names: a database works while Python does not."""
        if spans:
            self._take_params(self._param_rows(*spans[0]))
        names = list(self.params)
        with ThreadPoolExecutor(2) as readers:
            for span, rows in zip(spans[1:], readers.map(lambda one: self._rows(names, *one), spans[1:]), strict=True):
                self._take_params(
                    rows if self._is_whole(rows) and len(names) == len(self.params) else self._param_rows(*span)
                )

    @property
    def _last(self) -> int:
        return int(self.ids[-1]) if len(self.ids) else 0

    def _spans(self, after: int, opened: np.ndarray[Any, Any]) -> Iterator[tuple[int, int]]:
        """Ranges of the ids that are to be read: those after one, and those that were open."""
        wanted = np.concatenate([opened[opened <= after], self.ids[np.searchsorted(self.ids, after, "right") :]])
        if not len(wanted):
            return
        apart = np.flatnonzero(np.diff(wanted) > NEAR) + 1
        for some in np.split(wanted, apart):
            for at in range(0, len(some), AT_ONCE):
                part = some[at : at + AT_ONCE]
                yield int(part[0]), int(part[-1])

    # --- trials -------------------------------------------------------------------------------------------------

    def _take(self, rows: Sequence[Row]) -> None:
        ids, numbers, states, starts, ends = zip(*rows, strict=True)
        known = self._last
        new = [place for place, each in enumerate(ids) if each > known]
        self._grow(np.array([ids[k] for k in new], np.int64), np.array([numbers[k] for k in new], np.int32))
        at = np.searchsorted(self.ids, np.array(ids, np.int64))
        codes = np.array([CODES[state] for state in states], np.int8)
        self.changed[at[codes != self.state[at]]] = self.revision
        self.state[at], self.start[at], self.end[at] = codes, self._seconds(starts), self._seconds(ends)

    def _grow(self, ids: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]) -> None:
        if not (np.diff(ids) > 0).all():
            raise ValueError("the ids of its trials do not grow")
        count = len(ids)
        unknown = np.full(count, np.nan)
        self.ids, self.number = np.concatenate([self.ids, ids]), np.concatenate([self.number, numbers])
        self.state = np.concatenate([self.state, np.full(count, -1, np.int8)])
        self.changed = np.concatenate([self.changed, np.full(count, self.revision, np.int32)])
        self.start, self.end = np.concatenate([self.start, unknown]), np.concatenate([self.end, unknown])
        self.values = np.concatenate([self.values, np.full((count, self.values.shape[1]), np.nan)])
        for name, column in self.params.items():
            self.params[name] = np.concatenate([column, unknown])

    def _seconds(self, moments: Sequence[Any]) -> Floats:
        """Local times, as Optuna records them, in seconds since 1970."""
        found = np.array(moments, "datetime64[us]")
        seconds: Floats = (found - np.datetime64(0, "us")) / np.timedelta64(1, "s")
        known = seconds[np.isfinite(seconds)]
        if self._offset is None and len(known):
            local = datetime.fromtimestamp(known[0], UTC).replace(tzinfo=None).astimezone()
            shift = local.utcoffset()
            self._offset = shift.total_seconds() if shift else 0.0
        return seconds - (self._offset or 0.0)

    def moments(self, seconds: Floats) -> list[datetime | None]:
        """The local times again, for people; None where there is none."""
        known = np.isfinite(seconds)
        found = np.full(len(seconds), "NaT", "datetime64[us]")
        found[known] = np.round((seconds[known] + (self._offset or 0.0)) * 1e6).astype("datetime64[us]")
        return found.tolist()

    # --- values and parameters ----------------------------------------------------------------------------------

    def _take_values(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        ids, objectives, values, kinds = zip(*rows, strict=True)
        (at, ours), which = self._places(np.array(ids, np.int64)), np.array(objectives, np.intp)
        found = np.array(values, np.float64)  # None is NaN
        for place, kind in enumerate(kinds):
            if kind != "FINITE":
                found[place] = SPECIAL.get(kind, np.nan)
        fits = ours & (which < self.values.shape[1])
        self.values[at[fits], which[fits]] = found[fits]

    def _places(self, ids: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Where these trials are, and which of them are of this study."""
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return at, self.ids[at] == ids

    def _take_params(self, rows: Floats) -> None:
        if not rows.size:
            return
        at = np.searchsorted(self.ids, rows[:, 0].astype(np.int64))
        for column, found in zip(self.params.values(), rows[:, 2:].T, strict=True):
            if self._params_until:  # nobody has asked for those before the first look at them
                # A running trial gets its parameters after it has begun.
                self.changed[at[(column[at] != found) & np.isfinite(found)]] = self.revision
            column[at] = found

    def _rows(self, names: Sequence[str], first: int, last: int) -> Floats:
        """Of each trial its id, the number of its parameters, and those of these names."""
        rows = np.array(self.source.params(names, first, last), np.float64)  # None is NaN
        return rows[self._places(rows[:, 0].astype(np.int64))[1]] if rows.size else rows

    def _param_rows(self, first: int, last: int) -> Floats:
        """Rows with all parameters of these trials: a trial that has more than are known tells their names."""
        while True:
            self._check()
            rows = self._rows(list(self.params), first, last)
            if self._is_whole(rows) or len(self.params) >= MOST_PARAMS:
                return rows
            more = np.flatnonzero(_unnamed(rows))
            for place in (int(more[0]), int(more[-1])):
                self._add_params(int(rows[place, 0]))

    def _is_whole(self, rows: Floats) -> bool:
        return not rows.size or not _unnamed(rows).any()

    def _add_params(self, trial: int) -> None:
        for given, text in self.source.distributions(trial):
            name = str(given)
            if name not in self.params and len(self.params) < MOST_PARAMS:
                self.distributions[name] = Distribution.read(str(text))
                self.params[name] = np.full(len(self), np.nan)

    def params_at(self, places: Sequence[int]) -> list[dict[str, Any]]:
        """The parameters of the trials at these places, as Optuna's users know them."""
        found: list[dict[str, Any]] = [{} for _ in places]
        for name, column in self.params.items():
            value = self.distributions[name].value
            for params, stored in zip(found, column[places].tolist(), strict=True):
                if stored == stored:
                    params[name] = value(stored)
        return found

    def attributes(self, ids: Sequence[int], *, strict: bool) -> dict[int, dict[str, Any]]:
        """The attributes of these trials by their ids. One that is cut off or damaged is None, or an error if
        `strict`."""
        kept: dict[int, dict[str, Any]] = {each: {} for each in ids}
        texts = StoredTexts()
        for each, key, text in self.source.attributes(ids):
            try:
                kept[each][str(key)] = texts.decoded(text)
            except (ValueError, TypeError, RecursionError):
                if strict:
                    raise
                kept[each][str(key)] = None
        return kept


def _unnamed(rows: Floats) -> np.ndarray[Any, Any]:
    """Which trials have more parameters than were requested."""
    found: np.ndarray[Any, Any] = rows[:, 1] > np.isfinite(rows[:, 2:]).sum(axis=1)
    return found


def open_source(storage: str | Path, name: str | None) -> TrialSource:
    """The study of this name in the storage at a URL or in a file; None is the only one there."""
    if isinstance(storage, Path):
        if is_journal(storage):
            return JournalTrials(storage, name)
        return SqlTrials(SqliteFile(storage), name)
    if storage.partition("://")[0] in POSTGRES:
        return SqlTrials(PostgresDatabase(StoragePlace.parse(storage)), name)
    return SqlTrials(OtherDatabase(storage), name)


def is_journal(path: Path) -> bool:
    """Whether a file is Optuna's journal: lines of JSON. A SQLite file that is being made is empty."""
    try:
        with os.fdopen(open_plain(Path(os.path.realpath(path)), os.O_RDONLY), "rb") as file:
            return file.read(1) == b"{"
    except (OSError, FileError):
        return False
