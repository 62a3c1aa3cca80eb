"""The processes of several runs: started when there is room, stopped together."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from rookery.config import RunConfig
from rookery.config.run_size import LEARNING_PROCESS
from rookery.console import size_text
from rookery.errors import MemoryShortage, OptionError
from rookery.training.commands import start_command
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import experiment, read_config
from rookery.training.storage.runs_table import row

NEW, RESUME, FINISHED = "new", "resume", "finished"
OPEN = (None, "auto")  # values that a run fills in
ENGINE = ("num_envs", "backend", "groups", "device")  # measured where the user leaves them open


@dataclass(frozen=True)
class SeedRun:
    """The run of one seed, and what is left to do about it: NEW, RESUME or FINISHED."""

    seed: int
    run: RunDir
    state: str


def seed_runs(resolved: ResolvedRun, seeds: Sequence[int]) -> list[SeedRun]:
    """The run of each seed. A run in the runs folder with the same configuration and seed is used again; with a name
    given, only if it has that name too."""
    base = Path(resolved.config.runs_dir)
    known = list(_known_runs(base))
    return [_seed_run(resolved, seed, base, known) for seed in seeds]


def with_known_engine(config: RunConfig, resolved: ResolvedRun) -> dict[str, Any]:
    """The engine of the newest run with this configuration, for the keys that the user leaves open: a second
    measurement may give another number of envs, and the seeds would not be comparable."""
    left_open = [key for key in ENGINE if getattr(config, key) in OPEN]
    wanted = {key: value for key, value in _experiment(resolved).items() if key not in left_open}
    for _, recorded in sorted(_known_runs(Path(config.runs_dir)), key=lambda known: -known[0].created):
        has_name = config.name is None or recorded.get("name") == f"{config.name}-s{recorded.get('seed')}"
        if has_name and _matches(wanted, recorded):
            return {key: recorded[key] for key in left_open if recorded.get(key) not in OPEN}
    return {}


def name_of(resolved: ResolvedRun, seed: int) -> str:
    """The name of a seed's run."""
    name = resolved.config.name
    return resolved.with_config(seed=seed).title if name is None else f"{name}-s{seed}"


def _seed_run(
    resolved: ResolvedRun, seed: int, base: Path, known: Sequence[tuple[RunDir, Mapping[str, Any]]]
) -> SeedRun:
    wanted, name = _experiment(resolved), name_of(resolved, seed)
    for run, recorded in reversed(known):
        same = recorded.get("seed") == seed and _matches(wanted, recorded)
        if same and (resolved.config.name is None or recorded.get("name") == name):
            return SeedRun(seed, run, FINISHED if row(run)["state"] == "finished" else RESUME)
    return SeedRun(seed, RunDir(base / _free_name(base, name)), NEW)


def _known_runs(base: Path) -> Iterator[tuple[RunDir, dict[str, Any]]]:
    """All runs, the oldest first, with their configurations."""
    for run in RunDir.all(base):
        recorded = read_config(run)
        if recorded:
            yield run, recorded


def _experiment(resolved: ResolvedRun) -> dict[str, Any]:
    return experiment(resolved.config.model_dump(mode="json"))


def _matches(wanted: Mapping[str, Any], recorded: Mapping[str, Any]) -> bool:
    have = experiment(recorded)
    return all(value in OPEN or have.get(key) == value for key, value in wanted.items())


def _free_name(base: Path, name: str) -> str:
    """The name, or with a number behind it, if another run has it."""
    number = 1
    while (base / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return name if number == 1 else f"{name}-{number}"


BAD_INPUT = 2  # exit status
MOST_OUTPUT = 4000  # characters of an error


@dataclass
class SeedProcess:
    """The process of one seed's run; `status` is its exit status, None while it runs or waits."""

    seed_run: SeedRun
    process: subprocess.Popen[bytes] | None = None
    status: int | None = None

    @property
    def state(self) -> str:
        if self.status is not None:
            return {0: "finished", 130: "interrupted", 143: "interrupted"}.get(self.status, "failed")
        return "waiting" if self.process is None else "running"


class SeedProcesses:
    """Runs the CLI once for each seed, at most `shares.jobs` at a time. Within `with`, SIGINT and SIGTERM are passed on
    to all runs, which save and end; a second SIGINT ends them at once."""

    def __init__(self, config: RunConfig, runs: Sequence[SeedRun], shares: Shares, scratch: Path) -> None:
        self._config, self._shares, self._scratch = config, shares, scratch
        self.all = [SeedProcess(run, status=0 if run.state == FINISHED else None) for run in runs]
        self.signal: int | None = None  # the one that stopped the runs
        self._before: dict[int, Any] = {}

    def __enter__(self) -> SeedProcesses:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.all:
            if one.process is not None and one.process.poll() is None:  # an error passes: nothing may be left running
                one.process.kill()
                one.process.wait()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def advance(self) -> bool:
        """Notice runs that have ended, and start others in their place. Returns whether any run is left."""
        for one in self.all:
            if one.process is not None and one.status is None:
                one.status = one.process.poll()
        running = sum(one.state == "running" for one in self.all)
        for one in [one for one in self.all if one.state == "waiting"]:
            if self._stopping:
                break
            if running < self._shares.jobs:
                self._start(one)
                running += 1
        return any(one.state == "running" or (one.state == "waiting" and not self._stopping) for one in self.all)

    def output(self, one: SeedProcess) -> str:
        """The end of what a run has written to standard error."""
        try:
            return self._log(one).read_text(errors="replace")[-MOST_OUTPUT:].strip()
        except OSError:
            return ""

    @property
    def _stopping(self) -> bool:
        """Whether no further run may start: after a signal, or if one has refused what would be the same for all."""
        return self.signal is not None or any(one.status == BAD_INPUT for one in self.all)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        for one in self.all:
            if one.process is not None and one.process.poll() is None:
                one.process.send_signal(number)

    def _start(self, one: SeedProcess) -> None:
        variables = {"OMP_NUM_THREADS": "1"} if self._shares.jobs > 1 else {}
        with open(self._log(one), "wb") as log:
            words = self._arguments(one.seed_run)
            one.process = start_command(*words, variables=variables, stdout=subprocess.DEVNULL, stderr=log)

    def _arguments(self, seed_run: SeedRun) -> list[str]:
        if seed_run.state == RESUME:
            workers = [] if self._config.workers is None else ["--set", f"workers={self._config.workers}"]
            return ["resume", str(seed_run.run.path), *workers]
        config = self._config.model_dump(mode="json") | {"seed": seed_run.seed, "name": seed_run.run.name}
        file = self._scratch / f"seed-{seed_run.seed}.json"
        file.write_text(json.dumps(config))
        return ["train", str(file)]

    def _log(self, one: SeedProcess) -> Path:
        return self._scratch / f"{one.seed_run.run.path.name}.log"


CORES_OF_PROCESSES = 4  # a run with worker processes uses several cores by itself
MEMORY_OF_A_RUN = 1 << 30  # bytes: torch, a small net and its batches


@dataclass(frozen=True)
class Shares:
    """How many runs are trained side by side, and the cores that each one gets."""

    jobs: int
    cores: int


def divide(config: RunConfig, runs: int, cores: int, memory: int, jobs: int | None = None) -> Shares:
    """Divide the machine among runs.

    A run on a GPU gets all of it. A run in worker processes gets at least four cores. Any other run learns on one core
    for most of the time, so there is one run per core.

    Args:
        config: The resolved configuration of the runs.
        memory: Free bytes.
        jobs: The number that the user wants instead.
    """
    if jobs is not None and jobs < 1:
        raise OptionError(f"--jobs should be an integer >= 1, got {jobs}")
    if jobs is None:
        if config.device not in ("auto", "cpu"):
            jobs = 1
        else:
            jobs = cores // CORES_OF_PROCESSES if config.backend == "process" else cores
        jobs = min(jobs, memory // MEMORY_OF_A_RUN)
    elif (needed := min(jobs, runs) * LEARNING_PROCESS) > memory:
        raise MemoryShortage(
            f"{min(jobs, runs):,} runs at a time need at least {size_text(needed)} of memory, and "
            f"{size_text(memory)} are free: {max(1, memory // LEARNING_PROCESS):,} would fit"
        )
    jobs = max(1, min(jobs, runs))
    return Shares(jobs, max(1, cores // jobs))
