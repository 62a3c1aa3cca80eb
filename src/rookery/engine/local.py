"""What the serial and the thread backend share: envs in this process, called directly."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

import gymnasium as gym

from rookery.engine.batch import ROW, WORKER_WORDS, Batch, BatchSpec, private_batch
from rookery.engine.engine import Engine
from rookery.engine.failure import Failed
from rookery.engine.global_random import PreserveRandomState
from rookery.engine.machine import process_usage
from rookery.engine.segments import Segment, rows_of
from rookery.engine.step_report import StepReport
from rookery.engine.worker_envs import EnvDescription, WorkerEnvs

_NO_CONTEXT = nullcontext()


class LocalEngine(Engine):
    """Envs in this process. Subclasses decide which thread steps them."""

    interruptible = False

    def _build_first_env(self, rows: list[int]) -> EnvDescription:
        self._worker_envs = [self._new_worker_envs()]
        self._reports: dict[int, StepReport] = {}
        with _RaiseOriginal():
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
            with _RaiseOriginal():
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
        with self._preserve_random(), _NO_CONTEXT if raw else _RaiseOriginal():
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


class _RaiseOriginal:
    """Turns the internal Failed into the exception that the env raised."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Failed):
            raise error.failure.exception() from None
