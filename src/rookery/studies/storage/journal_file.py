"""Reads studies from a journal file of Optuna's, such as rl_zoo3 writes for `--storage FILE.log`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.errors import StorageLost
from rookery.studies.storage.stored_trials import FAIL_REASON, FIXED_PARAMS, STATES, StoredStudy, StoredTrial


class JournalFile:
    """A journal of one or more studies. Optuna reads what was appended since the last time."""

    def __init__(self, path: Path) -> None:
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        self._path = path
        try:
            self._journal = JournalStorage(JournalFileBackend(str(path)))
        except (OSError, ValueError, KeyError) as error:
            raise StorageLost(f"{printable(path)} cannot be read as a journal of Optuna: {error}") from None

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
            return self._journal.get_all_studies()
        except (OSError, ValueError, KeyError) as error:
            raise StorageLost(f"{printable(self._path)} cannot be read: {error}") from None


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
