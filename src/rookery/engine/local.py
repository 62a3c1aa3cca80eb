"""What the backends that live in this process share: crews called directly, in memory of our own."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

from rookery.engine.batch import ROW, WORKER_WORDS, Batch, BatchSpec, private_batch
from rookery.engine.engine import Engine
from rookery.engine.failure import Failed
from rookery.engine.global_random import Borrowed
from rookery.engine.segments import Segment, rows_of
from rookery.engine.step_report import StepReport
from rookery.engine.worker_envs import EnvDescription, WorkerEnvs

_NOTHING_TO_DO = nullcontext()


class LocalEngine(Engine):
    """Crews in this process. Subclasses decide who runs them."""

    interruptible = False

    def _build_first_env(self, rows: list[int]) -> EnvDescription:
        self._crews = [self._new_crew()]
        self._reports: dict[int, StepReport] = {}
        with self._unwrapped():
            return self._crews[0].build(rows[:1])

    def _new_crew(self) -> WorkerEnvs:
        crew = WorkerEnvs(self.source, self.settings.strictness, self.settings.isolate_random)
        crew.interruptible = True
        return crew

    @property
    def workers(self) -> int:
        return len(self._crews)

    def _start_workers(self, spec: BatchSpec, description: EnvDescription) -> None:
        self.batch: Batch = private_batch(spec)
        spaces = description.observation_space, description.action_space
        staff = max(s.worker for s in self.segments) + 1
        for crew in self._crews[staff:]:
            crew.close()
        self._crews[staff:] = [self._new_crew() for _ in range(len(self._crews), staff)]
        try:
            with self._unwrapped():
                for k, crew in enumerate(self._crews):
                    crew.build([row for row in rows_of(self.segments, k) if row not in crew.envs], spaces)
                    mine = [s for s in self.segments if s.worker == k]
                    crew.attach(self.batch, k * WORKER_WORDS + ROW, mine)
                    for stepper in crew.steppers.values():
                        stepper.interruptible = self.interruptible
                    crew.set_slots(list(self._slot_table.slots.values()))
        except BaseException:
            for crew in self._crews:
                crew.close()
            raise

    def _resize_workers(self, spec: BatchSpec) -> None:
        old = self.batch
        self._start_workers(spec, self.description)
        keep = slice(0, min(old.spec.num_envs, spec.num_envs))
        self.batch.observations.put(keep, old.observations.take(keep), keep.stop)

    def _call_workers(self, wanted: dict[int, tuple[str, tuple]], raw: bool = False) -> dict[int, Any]:
        with self._borrowed(), _NOTHING_TO_DO if raw else self._unwrapped():
            return {k: getattr(self._crews[k], method)(*args) for k, (method, args) in wanted.items()}

    def _notify_workers(self, method: str, args: tuple) -> None:
        self._call_workers({k: (method, args) for k in range(self.workers)})

    def _step(self, segment: Segment) -> None:
        """Step one segment now; keeps its report for later."""
        status, report = self._crews[segment.worker].steppers[segment.index].step()
        self.batch.status[segment.index] = status
        if report is not None:
            self._reports[segment.index] = report

    def _read_report(self, segment: Segment) -> StepReport:
        return self._reports.pop(segment.index)

    def _borrowed(self) -> Any:
        """The caller's random generators are put aside while envs use global ones of their own."""
        return Borrowed() if self._crews[0].isolating else _NOTHING_TO_DO

    def _unwrapped(self) -> Any:
        return _RaiseOriginal()

    def _usage(self) -> list[dict[str, Any]]:
        from rookery.engine.process_usage import process_usage

        usage = process_usage(os.getpid())
        return [usage for _ in self._crews]

    def close_extras(self, **kwargs: Any) -> None:
        failures = [failure for crew in getattr(self, "_crews", []) for failure in crew.close()]
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
