"""Reads trials from a journal file of Optuna's, such as rl_zoo3 writes. Optuna is imported for it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.errors import StudyError
from rookery.studies.storage.journal_file import JournalFile
from rookery.studies.storage.stored_trials import FAIL_REASON
from rookery.web.study_views.study_source import Row, StudyHead


class JournalTrials:
    """A study in a journal; `name` None is the only one there. The id of a trial is its number and 1."""

    def __init__(self, path: Path, name: str | None) -> None:
        self._path, self._name = path, name
        self._journal: JournalFile | None = None
        self._trials: list[Any] = []

    def head(self) -> StudyHead:
        if self._journal is None:
            self._journal = JournalFile(self._path)
        found = [each for each in self._journal.studies() if self._name in (None, each.study_name)]
        if len(found) != 1:
            names = ", ".join(printable(each.study_name) for each in found[:5])
            raise StudyError(f"{printable(self._path)} holds {len(found)} studies {names}".rstrip())
        study = found[0]
        self._trials = self._journal.frozen_trials(study)
        maximised = tuple(direction.name == "MAXIMIZE" for direction in study.directions)
        return StudyHead(f"{study._study_id} {study.study_name}", maximised, study.user_attrs)

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

    def param_names(self, trial: int) -> list[str]:
        return list(self._trials[trial - 1].params)

    def params(self, names: Sequence[str], first: int, last: int) -> list[Row]:
        return [
            (each, len(trial.params), *(_stored_value(trial, name) for name in names))
            for each, trial in self._of(range(first, last + 1))
        ]

    def distribution(self, name: str, trial: int) -> str:
        from optuna.distributions import distribution_to_json

        return distribution_to_json(self._trials[trial - 1].distributions[name])

    def intermediate(self, trials: Sequence[int]) -> list[Row]:
        return [
            (each, step, value, "FINITE")
            for each, trial in self._of(trials)
            for step, value in sorted(trial.intermediate_values.items())
        ]

    def attributes(self, trials: Sequence[int]) -> list[Row]:
        found = []
        for each, trial in self._of(trials):
            failed = {FAIL_REASON: trial.system_attrs[FAIL_REASON]} if FAIL_REASON in trial.system_attrs else {}
            found += [(each, key, json.dumps(value)) for key, value in {**trial.user_attrs, **failed}.items()]
        return found

    def close(self) -> None:
        """The file is open only while it is read."""

    def _of(self, ids: Iterable[int]) -> list[tuple[int, Any]]:
        return [(each, self._trials[each - 1]) for each in ids]


def _stored_value(trial: Any, name: str) -> float | None:
    """As a database of Optuna's holds it."""
    return float(trial.distributions[name].to_internal_repr(trial.params[name])) if name in trial.params else None
