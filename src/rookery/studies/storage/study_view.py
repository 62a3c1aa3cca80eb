"""What a study holds, for reading: its trials and which of them is best. Studies of Optuna and rl_zoo3 too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.errors import StudyError
from rookery.studies.storage.stored_trials import DAMAGED, State, StoredStudy
from rookery.studies.storage.study_place import StudyPlace, near_names
from rookery.studies.storage.study_storage import Storage, open_storage, shown
from rookery.studies.storage.trial_attributes import STUDY_CONFIG
from rookery.studies.storage.trial_view import TrialView, VerifiedTrial, trial_view, verified_trials

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

    def of_state(self, *states: State) -> list[TrialView]:
        return [trial for trial in self.trials if trial.state in states]

    @property
    def best(self) -> TrialView | None:
        """The finished trial with the best value, the first objective if there are several; None if there is none."""
        sign = 1 if self.maximise else -1
        known = [trial for trial in self.trials if trial.is_comparable]
        return max(known, key=lambda trial: (sign * trial.values[0], -trial.number), default=None)

    @property
    def best_verified(self) -> VerifiedTrial | None:
        """The trial with the best interquartile mean over held-out seeds; None if none was verified."""
        sign = 1 if self.maximise else -1
        known = [trial for trial in self.verified.values() if math.isfinite(trial.iqm)]
        return max(known, key=lambda trial: (sign * trial.iqm, -trial.number), default=None)

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
    """A study that can be read repeatedly."""

    def __init__(self, place: StudyPlace) -> None:
        self.place = place
        self._storage: Storage | None = None
        self._views: dict[int, TrialView] = {}  # of trials that will not change

    @classmethod
    def find(cls, study: str | Path, studies_dir: str | Path = "studies", storage: str | None = None) -> StudyReader:
        """The reader of a study, as `open_study` takes it."""
        return cls(StudyPlace.find(study, studies_dir, storage))

    def read(self) -> StudyView:
        """The study now. StudyError if it is not there, StorageLost if its storage does not answer."""
        if self._storage is None:
            self._storage = open_storage(self.place.storage)
        name = self.place.name or self._only_name(self._storage)
        stored = self._storage.read(name)
        if stored is None:
            others = near_names(name, self._storage.names())
            raise StudyError(f"there is no study {name[:80]!r} in {shown(self.place.storage)}{others}")
        try:
            return self._view(name, stored)
        except DAMAGED as error:
            raise StudyError(
                f"the study {name[:80]!r} in {shown(self.place.storage)} is damaged "
                f"({type(error).__name__}: {printable(error)[:200]})"
            ) from None

    def close(self) -> None:
        """Forget the storage, so that the next `read` opens it anew."""
        if self._storage is not None:
            self._storage.close()
        self._storage = None
        self._views.clear()

    def _only_name(self, storage: Storage) -> str:
        names = storage.names()
        where = shown(self.place.storage)
        if not names:
            raise StudyError(f"there is no study in {where}")
        if len(names) > 1:
            raise StudyError(
                f"{where} holds {len(names)} studies: name one of them, such as `rookery study {sorted(names)[0]:.80} "
                f"--storage {where}`; there are: {', '.join(printable(name)[:80] for name in sorted(names)[:10])}"
            )
        return names[0]

    def _view(self, name: str, stored: StoredStudy) -> StudyView:
        trials = []
        for trial in stored.trials:
            view = self._views.get(trial.number)
            if view is None or view.state in ("waiting", "running"):
                view = self._views[trial.number] = trial_view(trial)
            trials.append(view)
        config = stored.attributes.get(STUDY_CONFIG)
        return StudyView(
            name=name,
            folder=self.place.folder,
            storage=shown(self.place.storage),
            maximise=stored.directions[0],
            trials=trials,
            config=config if isinstance(config, dict) else None,
            verified=verified_trials(stored.attributes),
            directions=stored.directions,
            attributes=stored.attributes,
        )


def open_study(study: str | Path, studies_dir: str | Path = "studies", storage: str | None = None) -> StudyView:
    """Read a study. Nothing is written, and a search that goes on is not disturbed.

    Args:
        study: The name of a study in `studies_dir`, its folder, a SQLite file or Optuna journal, the URL of a database,
            or, with `storage`, the name of a study in it.
        storage: A SQLite file, an Optuna journal or the URL of a database.
    """
    return StudyReader.find(study, studies_dir, storage).read()
