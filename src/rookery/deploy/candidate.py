"""What may become the champion: the best verified trial of a study, or a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.config import RunConfig, build_config
from rookery.console import printable
from rookery.errors import RegistryError, RunError, StudyError
from rookery.studies.storage.study_view import StudyView, VerifiedTrial, open_study
from rookery.studies.trials.plans import metric_of
from rookery.training.storage.run_dir import RunDir


@dataclass(frozen=True)
class Candidate:
    """A run, and what is known about where it comes from. `checkpoint` is which of its agents is meant."""

    run: RunDir
    checkpoint: str = "best"  # or "latest"
    study: StudyView | None = None
    trial: int | None = None
    sibling_ids: frozenset[str] = field(default_factory=frozenset)  # of all verified runs of the trial

    @property
    def config(self) -> RunConfig:
        return build_config(self.run.read_config())

    @property
    def name(self) -> str:
        """For messages."""
        if self.study is None:
            return f"run {self.run.name}"
        return f"trial {self.trial} of study {printable(self.study.name)} ({self.run.name})"

    @property
    def source(self) -> dict[str, Any]:
        """As a version records it."""
        return {"study": None if self.study is None else self.study.name, "trial": self.trial}


def find_candidate(
    what: str | Path,
    *,
    studies_dir: str | Path = "studies",
    runs_dir: str | Path = "runs",
    storage: str | None = None,
    checkpoint: str | None = None,
) -> Candidate | None:
    """The candidate of a study or run; None if no trial of the study is verified yet. `checkpoint` is "best" or
    "latest"; if omitted, the one whose value the study compared, and the best of a single run."""
    study = _study(what, studies_dir, runs_dir, storage)
    if study is None:
        return Candidate(RunDir.find(what, Path(runs_dir)), checkpoint or "best")
    trial = study.best_verified
    if trial is None:
        return None
    runs = [_inside(study, path) for path in trial.runs]
    run = runs[_best_run(trial, study.maximise)]
    if not run.path.is_dir():
        raise StudyError(f"study {printable(study.name)}: {printable(run.path)} is missing, the run of its best trial")
    ids = frozenset(found.id for found in runs if found.id is not None)
    return Candidate(run, checkpoint or _usual_checkpoint(run), study, trial.number, ids)


def _study(what: str | Path, studies_dir: str | Path, runs_dir: str | Path, storage: str | None) -> StudyView | None:
    """The study of this name; None if a run is meant."""
    try:
        RunDir.find(what, Path(runs_dir))
    except RunError as error:
        return _read_study(what, studies_dir, storage, error)
    if storage is None and not _is_study(what, studies_dir):
        return None
    if Path(what).is_absolute() or storage is not None:
        return open_study(what, studies_dir, storage)
    raise RegistryError(
        f"{printable(what)} is a study and a run: give the path, such as {printable(Path(studies_dir) / what)}"
    )


def _read_study(what: str | Path, studies_dir: str | Path, storage: str | None, no_run: RunError) -> StudyView:
    try:
        return open_study(what, studies_dir, storage)
    except StudyError as error:
        if storage is not None or _is_study(what, studies_dir):
            raise
        raise StudyError(f"{error}; nor is it a run: {no_run}") from None


def _is_study(what: str | Path, studies_dir: str | Path) -> bool:
    return any(
        (place / name).is_file()
        for place in (Path(studies_dir) / what, Path(what))
        for name in ("study.json", "study.db")
    )


def _inside(study: StudyView, path: str) -> RunDir:
    """A run of a study. Its path is from the study's database: it must not lead out of the study's folder."""
    if study.folder is None:
        raise StudyError(
            f"study {printable(study.name)} has no folder here, and so no runs: name its folder, not its database"
        )
    found = (study.folder / path).resolve()
    if not found.is_relative_to(study.folder.resolve()):
        raise StudyError(f"study {printable(study.name)}: its run {printable(path)!r} is outside of the study's folder")
    return RunDir(found)


def _best_run(trial: VerifiedTrial, maximise: bool) -> int:
    """The index of the run with the best value. The gate measures it anew, so that the luck of the choice does not
    count."""
    if not trial.runs:
        raise StudyError(f"trial {trial.number} was verified, and its runs are not recorded")
    values = list(trial.values.values())
    if len(values) != len(trial.runs):
        return 0
    sign = 1 if maximise else -1
    return max(range(len(values)), key=lambda k: sign * values[k] if math.isfinite(values[k]) else -math.inf)


def _usual_checkpoint(run: RunDir) -> str:
    """The checkpoint that a study's metric is about."""
    return "latest" if metric_of(build_config(run.read_config())) == "evaluation" else "best"
