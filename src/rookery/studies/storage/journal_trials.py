"""Reads trials from a journal file of Optuna's, such as rl_zoo3 writes for `--storage FILE.log`. Optuna is imported."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.errors import FileError, MissingExtra, StorageLost
from rookery.files import read_plain
from rookery.studies.storage.trial_sources import DAMAGED, MOST_BYTES, SIGNS, Row, StudyHead, find_study
from rookery.studies.storage.trial_view import FAIL_REASON, FIXED_PARAMS

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
