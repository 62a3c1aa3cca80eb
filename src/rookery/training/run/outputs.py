"""Everything that a run writes: events, episodes, checkpoints and their copies, in a folder that may get lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rookery.config import RunConfig
from rookery.console import LONG_SECONDS, compiler_watched
from rookery.engine.engine import Engine
from rookery.errors import FolderLost
from rookery.learners.learner import Learner, Tree
from rookery.monitor.episode_file import EpisodeFile
from rookery.monitor.events import Event, Sinks
from rookery.monitor.jsonl import JsonLines
from rookery.monitor.log_lines import make_console_sink
from rookery.monitor.system_figures import GpuFigures, SystemFigures
from rookery.monitor.trackers import TensorBoard
from rookery.training.resolve.seats import NO_STEP_LIMIT
from rookery.training.storage.checkpoint import Checkpoints, saved_digest
from rookery.training.storage.checkpoint_mirror import CheckpointMirror, open_mirror
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_lock import UNWRITABLE, FolderWatch


@dataclass
class RunOutputs:
    """Where the events and checkpoints of a run go."""

    path: Path  # of the run's folder
    checkpoints: Checkpoints
    sinks: Sinks
    watch: FolderWatch
    episode_file: EpisodeFile | None
    system: SystemFigures | None
    mirror: CheckpointMirror | None
    step: Callable[[], int] = lambda: 0  # the present one of the run
    keeps_checkpoints: bool = True  # not where a part of a run is played again

    _compile_began: float | None = None  # until what was compiled is reported
    _compile_seconds: float = 0.0

    # --- events ---------------------------------------------------------------------------------------------------

    def event(self, kind: str, step: int | None = None, /, **values: Any) -> None:
        """Report something of the present step, or of an earlier one."""
        if self._compile_began is not None and kind != "doing":
            self._report_compiled()
        self.sinks.write(Event(kind, self.step() if step is None else step, values, time.time()))

    def note(self, text: str) -> None:
        """Report a choice or a change."""
        self.event("note", text=text)

    def warn(self, text: str) -> None:
        """Report what may be wrong; the run continues."""
        self.event("note", text=text, warning=True)

    def tell_compiling(self, what: str, seconds: float | None) -> None:
        """Report what is being compiled; with the seconds that it took, once it is."""
        now = time.monotonic()
        self._compile_began = now if self._compile_began is None else self._compile_began
        if seconds is None:
            so_far = f"{now - self._compile_began:.0f} s so far"
            self.event("doing", text=f"compiling {what} (once on this machine), {so_far}", compiling=True)
        else:
            self._compile_seconds += seconds

    def _report_compiled(self) -> None:
        self._compile_began, seconds, self._compile_seconds = None, self._compile_seconds, 0.0
        if seconds >= LONG_SECONDS:
            self.note(f"compiled in {seconds:.0f} s for this machine; later starts read the compiled code from disk")

    def system_figures(self, engine: Engine) -> dict[str, float]:
        """CPU, memory and GPU, at intervals."""
        if self.system is None or not self.system.due:
            return {}
        figures = self.system.sample(engine.stats())
        for text in self.system.take_notes():
            self.warn(text)
        return figures

    # --- the folder and its checkpoints ---------------------------------------------------------------------------

    def why_lost(self) -> str:
        """What has happened to the run's folder; "" while it is where it was."""
        return self.watch.why_lost()

    def check_folder(self) -> None:
        """End the run if its folder is no longer there: what is written would be found nowhere."""
        why = self.why_lost()
        if why:
            raise FolderLost(why)

    def save(self, tree: Tree, score: float | None, started: float) -> Path | None:
        """Write a checkpoint of the present step, which was begun at `started`; returns its folder. If the disk is
        full, it is None, and the run continues with the one before."""
        step = self.step()
        try:
            path = self.checkpoints.save(step, tree, score=score)
        except OSError as error:
            self.check_folder()
            if error.errno in UNWRITABLE:
                raise FolderLost(f"no checkpoint can be saved any more: {error}") from error
            self.warn(f"no checkpoint at step {step}: {error}; the run continues")
            return None
        size = sum(file.stat().st_size for file in path.iterdir())
        facts = {"seconds": time.perf_counter() - started, "bytes": size, "agent": saved_digest(path)}
        self.event("checkpoint", path=str(path), **facts)
        if self.mirror is not None:
            self.mirror.add(path)
        return path

    def mark_best(self, step: int, score: float, is_last: bool) -> None:
        """Mark the checkpoint of an earlier step as the best; the copy of the last one follows."""
        try:
            path = self.checkpoints.set_score(step, score)
        except OSError as error:
            self.warn(f"the checkpoint of step {step} is the best, but cannot be marked: {error}; the run continues")
            return
        if path is not None and self.mirror is not None and is_last:
            self.mirror.add(path)

    def tell_of_mirror(self, last: bool = False) -> None:
        """Tell what has become of the copies of checkpoints; in the end, wait for the last one."""
        if self.mirror is None:
            return
        if last:
            self.mirror.close()
        for text in self.mirror.take_notes():
            self.warn(text)


@contextmanager
def open_outputs(folder: RunDir, config: RunConfig, learner: Learner) -> Iterator[RunOutputs]:
    """What a run writes, closed in the end."""
    own = not folder.keeps_checkpoints_outside
    with (
        closing(FolderWatch(folder.path)) as watch,
        open_sinks(folder, config) as sinks,
        _open_episode_file(folder, config) as episodes,
        open_mirror(config.checkpoints.mirror, folder) as mirror,
    ):
        outputs = RunOutputs(
            path=folder.path,
            checkpoints=Checkpoints(
                folder.checkpoints, config.checkpoints.keep, folder.id, own=own, budget=config.checkpoints.budget
            ),
            sinks=sinks,
            watch=watch,
            episode_file=episodes,
            system=system_figures(config, learner),
            mirror=mirror,
        )
        with compiler_watched(outputs.tell_compiling):
            yield outputs


def open_sinks(folder: RunDir, config: RunConfig) -> Sinks:
    """What receives the run's events: the terminal, files, and services that the config names."""
    options, sinks = config.monitor, Sinks()
    steps = config.steps if config.steps < NO_STEP_LIMIT else None
    if options.verbose:
        sinks.append(make_console_sink(steps, panel=options.panel is not False))
    sinks.append(JsonLines(folder.path))
    if options.tensorboard:
        sinks.append(TensorBoard(folder.tensorboard))
    for name in ("wandb", "mlflow"):
        if getattr(options, name):
            from rookery.monitor.trackers import make_tracker

            sinks.append(make_tracker(name))
    return sinks


@contextmanager
def _open_episode_file(folder: RunDir, config: RunConfig) -> Iterator[EpisodeFile | None]:
    """The file of episodes, if the config wants it, closed in the end also on a full disk."""
    file = EpisodeFile(folder.path) if config.monitor.episodes else None
    try:
        yield file
    finally:
        if file is not None:
            with suppress(OSError):
                file.close()


def system_figures(config: RunConfig, learner: Learner) -> SystemFigures | None:
    """CPU, memory and GPU of the run, if the config wants them."""
    if not config.monitor.system:
        return None
    gpu = GpuFigures(torch.cuda, torch.device(config.device).index, torch.version.hip is not None)
    on_gpu = config.device.startswith("cuda")
    notes = [problem] if on_gpu and (problem := gpu.problem()) else []
    return SystemFigures(gpu if on_gpu else None, learner.bytes_to_fill, notes)
