"""The runners of a search on a cluster: parts of trials go out, what became of them comes back, once for each.

A part whose runner is lost goes to another runner. What a lost runner might still return is never asked for.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rookery.cluster.node_facts import check_equal, facts_here
from rookery.cluster.transport import CollectorLost
from rookery.cluster.trial_runner import BUSY, PartReturn, RunnerStatus, SharedMark, pack_run, unpack_run
from rookery.errors import StudyError
from rookery.studies.trials.part_training import FAILED, PartOutcome
from rookery.studies.trials.plans import TrialPart
from rookery.training.storage.run_dir import RunDir

RESIZE_SECONDS = 5.0  # between two looks at the nodes: some may have come or gone
STATUS_SECONDS = 1.0
BUSY_SECONDS = 1.0  # before a run folder is retried that a lost runner may still have
MOST_LOSSES = 5  # of runners in one part, or of runners that have begun nothing


class RunnerTransport(Protocol):
    """Starts runners on the nodes of a cluster and carries calls to them."""

    def capacity(self) -> int:
        """How many runners the cluster has room for now."""

    def start(self) -> Any:
        """Start a `TrialRunner` somewhere; returns its handle at once."""

    def call(self, handle: Any, method: str, *args: Any) -> Any:
        """Start a call; `status` and `stop` are answered while `train` is under way."""

    def wait(self, calls: Sequence[Any], seconds: float) -> list[Any]:
        """Those of the calls that have ended, after so many seconds at most."""

    def result(self, call: Any, seconds: float | None) -> Any:
        """What a call that has ended returns or raises; CollectorLost if nobody is left to answer it."""

    def kill(self, handle: Any) -> None:
        """End its process, also one that hangs."""


@dataclass(eq=False)
class Job:
    """A part that is to be trained. `done` is called once, with its outcome."""

    part: TrialPart
    done: Callable[[PartOutcome], None]
    evaluated: Callable[[int, float], bool] = lambda step, value: False  # whether to prune it here
    losses: int = 0
    memory: int = 0  # of its runner, in bytes
    not_before: float = 0.0


@dataclass(eq=False)
class _Runner:
    handle: Any
    place: str = "a node"
    ready: bool = False
    shared: bool = False  # whether it has the study's disk
    job: Job | None = None
    status_due: float = 0.0
    calls: set[Any] = field(default_factory=set)


class RunnerPool:
    """All runners, and the parts that wait for one."""

    def __init__(self, transport: RunnerTransport, mark: SharedMark, code: list[str], note: Callable[[str], None]):
        """`code` are files that must be the same on every node; `note` receives what a user should know."""
        self._transport, self._mark, self._note = transport, mark, note
        self._facts, self._code = facts_here(code), code
        self._runners: list[_Runner] = []
        self._waiting: deque[Job] = deque()
        self._calls: dict[Any, tuple[_Runner, str]] = {}
        self._resize_due, self._idle_losses = 0.0, 0

    @property
    def free(self) -> int:
        """Runners that have nothing to do and no part that waits for them."""
        return sum(runner.ready and runner.job is None for runner in self._runners) - len(self._waiting)

    @property
    def jobs(self) -> list[Job]:
        """All that have not ended."""
        return [*self._waiting, *self.running]

    @property
    def running(self) -> list[Job]:
        """Those that a runner has."""
        return [runner.job for runner in self._runners if runner.job is not None]

    def submit(self, job: Job) -> None:
        self._waiting.append(job)

    def poll(self, seconds: float) -> None:
        """Give out what waits, and take what has come within so many seconds."""
        now = time.monotonic()
        if now >= self._resize_due:
            self._grow()
            self._resize_due = now + RESIZE_SECONDS
        self._give(now)
        self._ask_status(now)
        if not self._calls:
            time.sleep(seconds)
        for call in self._transport.wait(list(self._calls), seconds) if self._calls else []:
            if call in self._calls:  # a runner that was lost in the meantime has none any more
                self._take(call)

    def stop(self, jobs: Sequence[Job], reason: str) -> None:
        """Ask runs to save and end. Those that have not begun are forgotten."""
        for job in jobs:
            if job in self._waiting:
                self._waiting.remove(job)
            for runner in self._runners:
                if runner.job is job:
                    self._call(runner, "stop", reason)

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End parts that nobody wants any more, at once."""
        for job in jobs:
            if job in self._waiting:
                self._waiting.remove(job)
            for runner in [runner for runner in self._runners if runner.job is job]:
                runner.job = None
                self._drop(runner)

    def close(self) -> None:
        for runner in list(self._runners):
            self._drop(runner)

    # --- runners ------------------------------------------------------------------------------------------------

    def _grow(self) -> None:
        for _ in range(self._transport.capacity() - len(self._runners)):
            runner = _Runner(self._transport.start())
            self._runners.append(runner)
            self._call(runner, "begin", self._code, self._mark)

    def _call(self, runner: _Runner, method: str, *args: Any) -> None:
        call = self._transport.call(runner.handle, method, *args)
        runner.calls.add(call)
        self._calls[call] = runner, method

    def _drop(self, runner: _Runner) -> None:
        for call in runner.calls:
            self._calls.pop(call, None)
        with suppress(ValueError):
            self._runners.remove(runner)
        self._transport.kill(runner.handle)
        self._resize_due = 0.0

    def _lost(self, runner: _Runner, reason: str) -> None:
        place, job = runner.place, runner.job
        self._drop(runner)
        self._idle_losses = 0 if job is not None else self._idle_losses + 1
        if self._idle_losses >= MOST_LOSSES:
            raise StudyError(f"runners on the cluster end before they begin a trial, the last one on {place}: {reason}")
        if job is None:
            return
        job.losses += 1
        if job.losses >= MOST_LOSSES:
            why = f"{job.losses} runners were lost while they trained it, the last one on {place} ({reason})"
            job.done(PartOutcome(FAILED, _run_of(job.part), reason=why))
            return
        self._note(f"{job.part.run_name}: its runner on {place} was lost ({reason}): it is trained elsewhere")
        self._waiting.appendleft(job)

    # --- parts --------------------------------------------------------------------------------------------------

    def _give(self, now: float) -> None:
        for runner in self._runners:
            job = next((job for job in self._waiting if job.not_before <= now), None)
            if job is None:
                return
            if runner.ready and runner.job is None:
                self._waiting.remove(job)
                runner.job, runner.status_due = job, now + STATUS_SECONDS
                files = None if runner.shared else pack_run(_run_of(job.part).path)
                self._call(runner, "train", job.part, files)

    def _ask_status(self, now: float) -> None:
        for runner in self._runners:
            if runner.job is not None and now >= runner.status_due:
                runner.status_due = float("inf")  # until it has answered
                self._call(runner, "status")

    def _take(self, call: Any) -> None:
        runner, method = self._calls.pop(call)
        runner.calls.discard(call)
        try:
            result = self._transport.result(call, None)
        except CollectorLost as error:
            self._lost(runner, str(error))
            return
        if method == "begin":
            facts, runner.shared = result
            check_equal(facts, self._facts)
            runner.place = f"node {facts.node}"
            runner.ready = True
        elif method == "status":
            runner.status_due = time.monotonic() + STATUS_SECONDS
            self._take_status(runner, result)
        elif method == "train" and runner.job is not None:
            job, runner.job = runner.job, None
            self._take_part(job, result)

    def _take_status(self, runner: _Runner, status: RunnerStatus) -> None:
        job = runner.job
        if job is None:
            return
        job.memory = status.memory
        for step, value in status.evaluations:
            if job.evaluated(step, value):
                self._call(runner, "stop", "pruned")
                return

    def _take_part(self, job: Job, returned: PartReturn) -> None:
        if returned.state == BUSY:
            job.not_before = time.monotonic() + BUSY_SECONDS
            self._waiting.append(job)
            return
        run = _run_of(job.part)
        if returned.files is not None:
            unpack_run(returned.files, run.path)
        for step, value in returned.evaluations:
            job.evaluated(step, value)
        if returned.log:
            self._note(returned.log.rstrip())
        job.done(PartOutcome(returned.state, run, returned.seconds, returned.steps, returned.reason))


def _run_of(part: TrialPart) -> RunDir:
    return RunDir(Path(part.config.runs_dir) / part.run_name)
