"""The processes of several runs: started when there is room, stopped together."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from rookery.config import RunConfig
from rookery.training.commands import start_command
from rookery.training.seeds.seed_runs import FINISHED, RESUME, SeedRun
from rookery.training.seeds.shares import Shares

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
        return self._scratch / f"seed-{one.seed_run.seed}.log"
