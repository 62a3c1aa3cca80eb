"""What a study holds, for reading: its trials and which of them is best. Studies of Optuna and rl_zoo3 too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.errors import StudyError
from rookery.studies.storage.storage_place import shown
from rookery.studies.storage.study_folder import StudyPlace
from rookery.studies.storage.trial_sources import DAMAGED
from rookery.studies.storage.trial_table import STATE_NAMES, TrialTable, open_source
from rookery.studies.storage.trial_view import (
    STUDY_CONFIG,
    Distribution,
    State,
    TrialView,
    VerifiedTrial,
    best_verified,
    verified_trials,
)

__all__ = ["StudyReader", "StudyView", "TrialView", "VerifiedTrial", "open_study"]


@dataclass(frozen=True)
class StudyView:
    """A study at one moment. `trials` are in the order of their numbers."""

    name: str
    folder: Path | None  # None for a study that is not in a folder of rookery's
    storage: str  # without a password
    maximise: bool
    trials: Sequence[TrialView]
    config: Mapping[str, Any] | None = None
    verified: Mapping[int, VerifiedTrial] = field(default_factory=dict)
    directions: tuple[bool, ...] = ()  # for each objective whether it is maximised; if empty, `maximise` alone
    attributes: Mapping[str, Any] = field(default_factory=dict)  # all user attributes of the study
    distributions: Mapping[str, Distribution] = field(default_factory=dict)  # by parameter

    def of_state(self, *states: State) -> list[TrialView]:
        return [trial for trial in self.trials if trial.state in states]

    @property
    def comparable(self) -> list[TrialView]:
        """Trials that finished with numbers."""
        return [trial for trial in self.trials if trial.is_comparable]

    @property
    def best(self) -> TrialView | None:
        """The finished trial with the best value, the first objective if there are several; None if there is none."""
        sign = 1 if self.maximise else -1
        return max(self.comparable, key=lambda trial: (sign * trial.values[0], -trial.number), default=None)

    @property
    def best_verified(self) -> VerifiedTrial | None:
        """The trial with the best interquartile mean over held-out seeds; None if none was verified."""
        return best_verified(self.verified, self.maximise)

    @property
    def chosen(self) -> TrialView | None:
        """The trial to use: the best verified one, or the best if none was verified."""
        verified = self.best_verified
        return self.best if verified is None else self.trial(verified.number)

    def trial(self, number: int) -> TrialView | None:
        """The trial of this number; None if there is none."""
        if number < len(self.trials) and self.trials[number].number == number:  # as always, unless some were deleted
            return self.trials[number]
        return next((trial for trial in self.trials if trial.number == number), None)


class StudyReader:
    """A study that can be read repeatedly: trials that have ended are read once."""

    def __init__(self, place: StudyPlace) -> None:
        self.place = place
        self.close()

    @classmethod
    def find(cls, study: str | Path, studies_dir: str | Path = "studies", storage: str | None = None) -> StudyReader:
        """The reader of a study, as `open_study` takes it."""
        return cls(StudyPlace.find(study, studies_dir, storage))

    def close(self) -> None:
        """Forget what was read, so that the next `read` starts over."""
        self._table: TrialTable | None = None
        self._epoch, self._views = "", list[TrialView]()  # by the places of trials in the table

    def read(self) -> StudyView:
        """The study now. StudyError if it is not there, StorageLost if its storage does not answer."""
        if self._table is None:
            self._table = TrialTable(open_source(self.place.storage, self.place.name))
        try:
            self._table.refresh()
            self._update(self._table)
            return self._view(self._table)
        except DAMAGED as error:
            name = (self._table.head.name or self.place.name or "")[:80]
            raise StudyError(
                f"the study {name!r} in {shown(self.place.storage)} is damaged, or of another version of Optuna "
                f"({type(error).__name__}: {printable(error)[:200]})"
            ) from None

    def _update(self, table: TrialTable) -> None:
        """Make views of the trials that are new or were open."""
        if table.epoch != self._epoch:
            self._epoch, self._views = table.epoch, []
        views = self._views
        places = [k for k, view in enumerate(views) if view.state in ("waiting", "running")]
        places += range(len(views), len(table))
        views += [TrialView(0, "waiting")] * (len(table) - len(views))
        ids = table.ids[places].tolist()
        attributes, params = table.attributes(ids, strict=True), table.params_at(places)
        moments = zip(table.moments(table.start[places]), table.moments(table.end[places]), strict=True)
        rows = zip(places, ids, table.values[places].tolist(), params, moments, strict=True)
        for place, trial, values, given, times in rows:
            known = () if all(value != value for value in values) else tuple(values)
            state = STATE_NAMES[table.state[place]]
            views[place] = TrialView.read(int(table.number[place]), state, known, given, times, attributes[trial])

    def _view(self, table: TrialTable) -> StudyView:
        head = table.head
        config = head.attributes.get(STUDY_CONFIG)
        return StudyView(
            name=head.name,
            folder=self.place.folder,
            storage=shown(self.place.storage),
            maximise=head.directions[0],
            trials=sorted(self._views, key=lambda view: view.number),
            config=config if isinstance(config, dict) else None,
            verified=verified_trials(head.attributes),
            directions=head.directions,
            attributes=head.attributes,
            distributions=dict(table.distributions),
        )


def open_study(study: str | Path, studies_dir: str | Path = "studies", storage: str | None = None) -> StudyView:
    """Read a study. Nothing is written, and a search that continues is not disturbed.

    Args:
        study: The name of a study in `studies_dir`, its folder, a SQLite file or Optuna journal, the URL of a database,
            or, with `storage`, the name of a study in it.
        storage: A SQLite file, an Optuna journal or the URL of a database.
    """
    return StudyReader.find(study, studies_dir, storage).read()
