"""The serial and the thread backend: envs in this process, called directly.

serial  one loop: the baseline for numbers, and the fastest for very cheap envs
thread  for envs that wait (sockets, devices) or release the GIL in C code
"""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import gymnasium as gym

from rookery.engine.async_calls import check_time, timed_out
from rookery.engine.batch import ROW, WORKER_WORDS, Batch, BatchSpec, private_batch
from rookery.engine.engine import Engine
from rookery.engine.machine import process_usage
from rookery.engine.seeding import PreserveRandomState
from rookery.engine.segments import Segment, rows_of
from rookery.engine.step_report import REPORT, Failed, Failure, StepReport
from rookery.engine.worker_envs import EnvDescription, WorkerEnvs
from rookery.errors import OptionError

_NO_CONTEXT = nullcontext()


class LocalEngine(Engine):
    """Envs in this process. Subclasses decide which thread steps them."""

    interruptible = False

    def _build_first_env(self, rows: list[int]) -> EnvDescription:
        self._worker_envs = [self._new_worker_envs()]
        self._reports: dict[int, StepReport] = {}
        with _raising_original():
            return self._worker_envs[0].build(rows[:1], own_space=self.settings.own_space)

    def _new_worker_envs(self) -> WorkerEnvs:
        settings = self.settings
        envs = WorkerEnvs(self.source, settings.strictness, settings.isolate_random, settings.observation_mode)
        envs.interruptible = True
        return envs

    @property
    def workers(self) -> int:
        return len(self._worker_envs)

    @property
    def envs(self) -> list[gym.Env]:
        """The envs themselves, by their numbers."""
        found = {row: env for part in self._worker_envs for row, env in part.envs.items()}
        return [found[row] for row in sorted(found)]

    def _start_workers(self, spec: BatchSpec, description: EnvDescription) -> None:
        self.batch: Batch = private_batch(spec)
        spaces = description.observation_space, description.action_space
        count = max(s.worker for s in self.segments) + 1
        for envs in self._worker_envs[count:]:
            envs.close()
        self._worker_envs[count:] = [self._new_worker_envs() for _ in range(len(self._worker_envs), count)]
        try:
            with _raising_original():
                for k, envs in enumerate(self._worker_envs):
                    envs.build([row for row in rows_of(self.segments, k) if row not in envs.envs], spaces)
                    mine = [s for s in self.segments if s.worker == k]
                    envs.attach(self.batch, k * WORKER_WORDS + ROW, mine)
                    for stepper in envs.steppers.values():
                        stepper.interruptible = self.interruptible
                    envs.set_slots(list(self._slot_table.slots.values()))
        except BaseException:
            for envs in self._worker_envs:
                envs.close()
            raise

    def _resize_workers(self, spec: BatchSpec) -> None:
        old = self.batch
        self._start_workers(spec, self.description)
        keep = slice(0, min(old.spec.num_envs, spec.num_envs))
        self.batch.observations.put(keep, old.observations.take(keep), keep.stop)

    def _call_workers(self, calls: dict[int, tuple[str, tuple]], raw: bool = False) -> dict[int, Any]:
        with self._preserve_random(), _NO_CONTEXT if raw else _raising_original():
            return {k: getattr(self._worker_envs[k], method)(*args) for k, (method, args) in calls.items()}

    def _notify_workers(self, method: str, args: tuple) -> None:
        self._call_workers({k: (method, args) for k in range(self.workers)})

    def _step(self, segment: Segment) -> None:
        """Step one segment now, and keep its report for `_read_report`."""
        status, report = self._worker_envs[segment.worker].steppers[segment.index].step()
        self.batch.status[segment.index] = status
        if report is not None:
            self._reports[segment.index] = report

    def _read_report(self, segment: Segment) -> StepReport:
        return self._reports.pop(segment.index)

    def _preserve_random(self) -> Any:
        """Keep the caller's global random generators unchanged while envs use their own."""
        return PreserveRandomState() if self._worker_envs[0].isolates_random else _NO_CONTEXT

    def _usage(self) -> list[dict[str, Any]]:
        usage = process_usage(os.getpid())
        return [usage for _ in self._worker_envs]

    def close_extras(self, **kwargs: Any) -> None:
        failures = [failure for envs in getattr(self, "_worker_envs", []) for failure in envs.close()]
        if failures:
            self.closed = True
            raise failures[0].exception()


@contextmanager
def _raising_original() -> Iterator[None]:
    """Turns the internal Failed into the exception that the env raised."""
    try:
        yield
    except Failed as failed:
        raise failed.failure.exception() from None


class SerialEngine(LocalEngine):
    """Steps all envs one after another, when their results are waited for.

    `random` and `numpy.random` are kept apart for each env, as in worker processes. What one process cannot keep
    apart: module-level variables, class attributes, environment variables, the working directory.
    """

    backend = "serial"
    interruptible = True

    def _start_step(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            self.batch.go[segment.index] += 1

    def _wait(self, segments: Sequence[Segment], need: int, timeout: float | None = None) -> None:
        start = 0.0 if timeout is None else time.perf_counter()
        go, done, count = self.batch.go, self.batch.done, 0
        with self._preserve_random():
            for segment in segments:
                index = segment.index
                if done[index] != go[index]:
                    if count >= need:
                        continue
                    done[index] = go[index]  # first: if Ctrl-C ends the step, it is over
                    self._step(segment)
                count += segment.high - segment.low
        if timeout is not None:
            check_time("step", start, timeout)

    def _step(self, segment: Segment) -> None:
        try:
            super()._step(segment)
        except KeyboardInterrupt:
            self._in_flight.clear()
            raise


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
