"""How far the runs of a study are that are being trained, from their folders."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.errors import RunError
from rookery.studies.storage.study_view import StudyView
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.runs_table import row

VERIFY = "verify-"
RUN_NAME = re.compile(r"trial-(?P<trial>\d{5,})-(?P<part>[a-z]+-\d+)")


@dataclass(frozen=True)
class RunProgress:
    """A run of a trial that goes on."""

    trial: int
    part: str  # "seed-0", "fold-3"
    steps: int
    total: int | None
    value: float | None  # its latest evaluation
    steps_per_second: float | None
    is_busy: bool  # whether a process is training it now, on this machine

    @property
    def share(self) -> float | None:
        return min(1.0, self.steps / self.total) if self.total else None


def running_parts(study: StudyView) -> list[RunProgress]:
    """The runs of running trials that have not ended, and those by which trials are being verified."""
    if study.folder is None:
        return []
    running = {trial.number: trial.parts for trial in study.of_state("running")}
    found = []
    for number, part, folder in _run_folders(study.folder / "runs"):
        verifies = part.startswith(VERIFY)
        if verifies and number not in study.verified:
            progress = _progress(number, part, folder)
            found += [progress] if progress is not None and progress.is_busy else []
        elif not verifies and number in running and running[number].get(part, {}).get("value") is None:
            progress = _progress(number, part, folder)
            found += [progress] if progress is not None else []
    return found


def _run_folders(runs: Path) -> list[tuple[int, str, Path]]:
    """The number of the trial, the name of the part, and the folder of each run, in the order of trials."""
    try:
        names = os.listdir(runs)
    except OSError:  # there is no run yet, or the study is gone
        return []
    matches = [match for match in map(RUN_NAME.fullmatch, names) if match]
    return sorted((int(match["trial"]), match["part"], runs / match[0]) for match in matches)


def _progress(trial: int, part: str, folder: Path) -> RunProgress | None:
    try:
        run = RunDir(folder)
        found = row(run)
        total = run.read_config().get("steps") if run.config.exists() else None
    except (OSError, RunError):  # it is being made, or was deleted
        return None
    return RunProgress(
        trial=trial,
        part=part,
        steps=int(found["steps"] or 0),
        total=total if isinstance(total, int) and total > 0 else None,
        value=found["last_eval"],
        steps_per_second=found["steps_per_second"],
        is_busy=found["state"] == "running",
    )


def as_json(progress: RunProgress) -> dict[str, Any]:
    """The progress for programs."""
    return {
        "trial": progress.trial,
        "part": progress.part,
        "steps": progress.steps,
        "total": progress.total,
        "share": progress.share,
        "value": progress.value,
        "steps_per_second": progress.steps_per_second,
    }
