"""The serial backend: one loop in this process. The baseline for numbers, and the fastest for very cheap envs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rookery.engine.async_calls import check_time
from rookery.engine.local import LocalEngine
from rookery.engine.segments import Segment


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
