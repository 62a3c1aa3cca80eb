"""Where a run's time goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

PARTS = ("env", "policy", "learner", "waiting")


class Stopwatch:
    """Adds up seconds by part; `lap()` calls are cheap enough for every step (0.1 us)."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._since = self._shown = time.perf_counter()

    def start(self) -> None:
        """From here on time belongs to whoever laps next."""
        self._since = time.perf_counter()

    def lap(self, part: str) -> None:
        """The time since the last `start` or `lap` was spent on this."""
        now = time.perf_counter()
        self.seconds[part] += now - self._since
        self._since = now

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """`start` and `lap` around a block."""
        self.start()
        yield
        self.lap(part)

    def shares(self) -> dict[str, float]:
        """The parts' shares of the time since the last call."""
        now = time.perf_counter()
        total = max(now - self._shown, 1e-9)
        shares = {f"time/{part}": seconds / total for part, seconds in self.seconds.items()}
        shares["time/other"] = max(0.0, 1.0 - sum(shares.values()))
        self.seconds, self._shown = dict.fromkeys(PARTS, 0.0), now
        return shares
