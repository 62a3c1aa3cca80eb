"""How long an answer may take: in CPU seconds of this thread, by how fast this machine is at the moment."""

from __future__ import annotations

import time

TIMES = 1000  # about five seconds where the machine has nothing else to do


def spent() -> float:
    """CPU seconds of this thread so far; other threads do not count."""
    return time.thread_time()


def reference() -> float:
    """CPU seconds of some work, five milliseconds on an idle machine."""
    started = spent()
    sum(number * number for number in range(100_000))
    return spent() - started


class Stopwatch:
    """Whether what happened since it was made took long, for this machine now: the slower of two references counts."""

    def __init__(self) -> None:
        self._reference = reference()
        self._started = spent()

    def took_long(self) -> bool:
        took = spent() - self._started
        return took > TIMES * max(self._reference, reference())
