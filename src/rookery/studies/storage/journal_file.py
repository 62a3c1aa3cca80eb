"""Reads studies from a journal file of Optuna's, such as rl_zoo3 writes for `--storage FILE.log`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.errors import FileError, StorageLost
from rookery.files import read_plain
from rookery.studies.storage.stored_trials import (
    DAMAGED,
    FAIL_REASON,
    FIXED_PARAMS,
    MOST_BYTES,
    SIGNS,
    STATES,
    StoredStudy,
    StoredTrial,
)

LARGEST = 64 << 20  # bytes of a journal; 10,000 trials take some 20 MB
UNREADABLE = (OSError, AssertionError, FileError, *DAMAGED)


class JournalFile:
    """A journal of one or more studies. Optuna reads what was appended since the last time."""

    def __init__(self, path: Path) -> None:
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        self._path = path
        try:
            _check_size(path)
            self._journal = JournalStorage(JournalFileBackend(str(path)))
        except UNREADABLE as error:
            raise _unreadable(path, error) from None

    def names(self) -> list[str]:
        return [study.study_name for study in self.studies()]

    def read(self, name: str) -> StoredStudy | None:
        found = next((study for study in self.studies() if study.study_name == name), None)
        if found is None:
            return None
        trials = self.frozen_trials(found)
        maximised = tuple(direction.name == "MAXIMIZE" for direction in found.directions)
        return StoredStudy(maximised, found.user_attrs, [_stored(trial) for trial in trials])

    def frozen_trials(self, study: Any) -> list[Any]:
        """The trials of one of `studies`, by number, as Optuna has them."""
        return self._journal.get_all_trials(study._study_id, deepcopy=False)

    def close(self) -> None:
        """The file is open only while it is read."""

    def studies(self) -> list[Any]:
        """Optuna's own view of the studies. StorageLost if the file is gone."""
        if not self._path.exists():
            raise StorageLost(f"{printable(self._path)} is gone")
        try:
            _check_size(self._path)
            return self._journal.get_all_studies()
        except UNREADABLE as error:
            raise _unreadable(self._path, error) from None


def _check_size(path: Path) -> None:
    """Refuse a journal whose values would take too much memory."""
    data = read_plain(path, LARGEST)
    if sum(size * data.count(sign.encode()) for sign, size in SIGNS.items()) > MOST_BYTES:
        raise FileError(f"its values take more than {MOST_BYTES >> 20} MB")


def _unreadable(path: Path, error: BaseException) -> StorageLost:
    why = f"{type(error).__name__}: {printable(error)[:200]}"
    return StorageLost(f"{printable(path)} cannot be read as a journal of Optuna ({why})")


def _stored(trial: Any) -> StoredTrial:
    return StoredTrial(
        number=trial.number,
        state=STATES[trial.state.name],
        values=tuple(trial.values or ()),
        params=trial.params or trial.system_attrs.get(FIXED_PARAMS) or {},
        distributions=trial.distributions,
        attributes=trial.user_attrs,
        fail_reason=trial.system_attrs.get(FAIL_REASON),
        started=trial.datetime_start,
        ended=trial.datetime_complete,
    )
