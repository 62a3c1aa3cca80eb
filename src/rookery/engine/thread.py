"""The thread backend: for envs that wait (sockets, devices) or release the GIL in C code."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

from rookery.engine.async_calls import timed_out
from rookery.engine.batch import BatchSpec
from rookery.engine.failure import Failure
from rookery.engine.local import LocalEngine
from rookery.engine.segments import Segment
from rookery.engine.step_report import REPORT, StepReport
from rookery.engine.worker_envs import EnvDescription
from rookery.errors import OptionError


class ThreadEngine(LocalEngine):
    """One thread per worker, each stepping its own envs."""

    backend = "thread"
    forkable = False

    def _start_workers(self, spec: BatchSpec, description: EnvDescription) -> None:
        if any(description.global_random):
            raise OptionError(
                f"{self.source.name} draws from global `random` or `numpy.random`, which threads cannot keep apart: "
                "use backend='process' or 'serial', let the env draw from self.np_random, or pass isolate_random=False "
                "to accept results that depend on timing"
            )
        super()._start_workers(spec, description)
        if not hasattr(self, "_work"):
            self._done: queue.SimpleQueue[Segment] = queue.SimpleQueue()
            self._work: list[queue.SimpleQueue] = []
            self._finalizer = weakref.finalize(self, _stop_threads, self._work)  # also for an engine that nobody closes
        for work in self._work[len(self._worker_envs) :]:
            work.put(None)
        del self._work[len(self._worker_envs) :]
        while len(self._work) < len(self._worker_envs):
            self._work.append(queue.SimpleQueue())
            threading.Thread(
                target=_serve,
                args=(self._work[-1], self._done, self._worker_envs[len(self._work) - 1], self._reports),
                name=f"rookery-worker-{len(self._work) - 1}",
                daemon=True,
            ).start()

    def _start_step(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            self.batch.go[segment.index] += 1
            self._work[segment.worker].put((segment, self.batch))

    def _wait(self, segments: Sequence[Segment], need: int, timeout: float | None = None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        go, done = self.batch.go, self.batch.done
        while True:
            finished = [s for s in segments if done[s.index] == go[s.index]]
            if sum(s.high - s.low for s in finished) >= need:
                while not self._done.empty():  # tokens only say "look again"; the words hold the truth
                    self._done.get_nowait()
                return
            try:
                self._done.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise timed_out("step", timeout or 0.0) from None

    def close_extras(self, **kwargs: Any) -> None:
        if hasattr(self, "_work"):
            self._finalizer()
        super().close_extras(**kwargs)


def _stop_threads(work: list[queue.SimpleQueue]) -> None:
    for tasks in work:
        tasks.put(None)


def _serve(work: queue.SimpleQueue, done: queue.SimpleQueue, envs: Any, reports: dict) -> None:
    while (task := work.get()) is not None:
        segment, batch = task
        try:
            status, report = envs.steppers[segment.index].step()
        except BaseException as error:  # noqa: BLE001 - a thread that dies in silence would be waited for
            status, report = REPORT, StepReport(failures=[Failure(segment.low, "step", error)])
        batch.status[segment.index] = status
        if report is not None:
            reports[segment.index] = report
        batch.done[segment.index] = batch.go[segment.index]
        done.put(segment)
