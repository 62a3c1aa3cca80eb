"""The process that trains the runs of trials on some node.

It is a plain class: an actor of Ray in a search, an object of this process in tests.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rookery.cluster.node_facts import NodeFacts, NodeProcess, facts_here
from rookery.errors import RunBusy
from rookery.gate import allow
from rookery.studies.trials import part_training
from rookery.studies.trials.part_training import PartOutcome
from rookery.studies.trials.plans import TrialPart
from rookery.studies.workers.limits import limit_gpu_memory, memory_of
from rookery.training.run.callbacks import Callback, RunControl
from rookery.training.storage.trust import reached_by

LOG_CHARACTERS = 20_000
BUSY = "busy"


@dataclass(frozen=True)
class SharedMark:
    """A file in the study's folder: a node that reads the same token there has the study's disk."""

    file: str
    token: str

    def is_here(self) -> bool:
        try:
            return Path(self.file).read_text() == self.token
        except OSError:
            return False


@dataclass(frozen=True)
class PartReturn:
    """What a runner returns of a part. `files` is its run folder, unless that is on the study's disk already."""

    state: str  # as in `PartOutcome`; BUSY if another process has the run folder
    seconds: float = 0.0
    steps: int = 0
    reason: str = ""
    evaluations: tuple[tuple[int, float], ...] = ()  # that no status has told
    files: bytes | None = None
    log: str = ""


@dataclass(frozen=True)
class RunnerStatus:
    """How a runner is doing. `evaluations` are new since the last time: steps and mean returns."""

    memory: int
    evaluations: list[tuple[int, float]]


class TrialRunner(NodeProcess):
    """Trains one part at a time. `status` and `stop` are called in the meantime, by other threads."""

    def __init__(self) -> None:
        self._stop, self._shared, self._evaluations = "", False, list[tuple[int, float]]()

    def begin(self, files: list[str], mark: SharedMark) -> tuple[NodeFacts, bool]:
        """What is installed here and what these files contain; and whether the study's disk is here."""
        self._shared = mark.is_here()
        return facts_here(files), self._shared

    def train(self, part: TrialPart, files: bytes | None) -> PartReturn:
        """Train a part, or continue with it: from the run folder on the study's disk, else from `files`."""
        self._stop = ""
        self._evaluations.clear()
        allow(reached_by(part.config))
        limit_gpu_memory(part.config)
        if self._shared:
            return self._trained(part)
        folder = Path(tempfile.mkdtemp(prefix="rookery-trial-"))
        try:
            here = replace(part, config=part.config.model_copy(update={"runs_dir": str(folder)}))
            if files is not None:
                unpack_run(files, folder / part.run_name)
            returned = self._trained(here)
            return replace(returned, files=pack_run(folder / part.run_name))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _trained(self, part: TrialPart) -> PartReturn:
        log = io.StringIO()
        try:
            with redirect_stderr(log):
                outcome: PartOutcome = part_training.train_part(part, self._watcher())
        except RunBusy as error:
            return PartReturn(BUSY, reason=str(error))
        return PartReturn(
            outcome.state, outcome.seconds, outcome.steps, outcome.reason, tuple(self._evaluations),
            log=log.getvalue()[-LOG_CHARACTERS:],
        )  # fmt: skip

    def _watcher(self) -> Callback:
        runner = self

        class Watching(Callback):  # not at the top of the file, so that a run does not record it
            def on_rollout(self, run: RunControl) -> None:
                if runner._stop:
                    run.stop(runner._stop)

            def on_evaluation(self, run: RunControl, metrics: Any) -> None:
                runner._evaluations.append((run.step, float(metrics["eval/return"])))

        return Watching()

    def status(self) -> RunnerStatus:
        """Memory of this process and its children, and new evaluations."""
        count = len(self._evaluations)
        taken, self._evaluations[:count] = self._evaluations[:count], []
        return RunnerStatus(memory_of(os.getpid()), taken)

    def stop(self, reason: str) -> None:
        """End the run that is trained now in good order: it saves, and can be continued."""
        self._stop = reason


def pack_run(folder: Path) -> bytes | None:
    """The files of a run folder; None if there is none."""
    if not folder.is_dir():
        return None
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.add(folder, arcname=".")
    return file.getvalue()


def unpack_run(data: bytes, folder: Path) -> None:
    """Replace a run folder by what `pack_run` has packed. Until all files are there, the old folder stays."""
    new = folder.with_name(f".{folder.name}.arriving")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(new, filter="data")  # which refuses links and paths that lead elsewhere
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
