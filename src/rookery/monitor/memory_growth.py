"""Finds memory that grows steadily, which would end a long run."""

from __future__ import annotations

from itertools import pairwise

from rookery.monitor.formatting import duration, size

POINTS = 16  # that are kept; when there are so many, pairs of them become one
WINDOW = 8  # of the latest points that must all grow
FIRST_SPAN = 30.0  # seconds of a point, doubled with each halving
SHARE, BYTES = 0.2, 200e6  # growth over the window that counts: more than this share, and more than this size
STEADY = 0.6  # the second half of the window must grow at least at this share of the first half's speed


class MemoryGrowth:
    """Watches the memory of some processes.

    A point is the least memory in a span of time, so that what is soon freed again does not count. The points reach
    back over at least half of the run: a slow leak is found as well as a fast one, only later.
    """

    def __init__(self, whose: str, expected: float = 0.0) -> None:
        """`whose` memory it is, for the message. `expected` bytes may be added without being a leak, such as those of a
        replay buffer that fills."""
        self._whose, self._expected = whose, expected
        self._found = False
        self.restart()

    def restart(self) -> None:
        """Begin anew: there is a reason for another amount of memory."""
        self._points: list[tuple[float, float]] = []
        self._span = FIRST_SPAN
        self._open: tuple[float, float] | None = None  # the point that is not complete: its start, its minimum

    def add(self, seconds: float, used: float, free: float) -> str:
        """The memory in bytes at a time; returns a sentence once, when it is found to grow steadily, else ""."""
        if self._open is None:
            self._open = seconds, used
        elif seconds - self._open[0] < self._span:
            self._open = self._open[0], min(self._open[1], used)
        else:
            self._points.append(self._open)
            self._open = seconds, used
            return self._sentence(free)
        return ""

    def _sentence(self, free: float) -> str:
        window = self._points[-WINDOW:]
        grows = not self._found and len(window) == WINDOW and self._is_growth([used for _, used in window])
        if len(self._points) == POINTS:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [(start, min(used, later)) for (start, used), (_, later) in pairs]
            self._span *= 2
        if not grows:
            return ""
        self._found = True
        (first_at, first), (last_at, last) = window[0], window[-1]
        left = (last_at - first_at) * free / (last - first)
        return (
            f"the memory of the {self._whose} grows steadily, from {size(first)} to {size(last)} in "
            f"{duration(last_at - first_at)}: the {size(free)} that are free would last {duration(left)} more"
        )

    def _is_growth(self, used: list[float]) -> bool:
        growth, half = used[-1] - used[0], WINDOW // 2
        early, late = (used[half] - used[0]) / half, (used[-1] - used[half]) / (WINDOW - 1 - half)
        rises = all(before < after for before, after in pairwise(used))
        enough = growth > max(SHARE * used[0], BYTES) + self._expected
        return rises and enough and late >= STEADY * early
