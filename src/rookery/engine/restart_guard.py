"""How often something may fail: restarts are counted per env and per worker, in a sliding window of time."""

from __future__ import annotations

import time
from collections import defaultdict, deque

from rookery.errors import RestartLimit


class RestartGuard:
    """Grants restarts until `limit` of them fall within `window` seconds for the same env or worker."""

    def __init__(self, limit: int, window: float) -> None:
        self.limit, self.window = limit, window
        self._times: dict[tuple[str, int], deque[float]] = defaultdict(deque)
        self._first: dict[tuple[str, int], str] = {}
        self.total = 0

    def grant(self, kind: str, number: int, story: str) -> None:
        """Count one restart of `kind` (env, worker) `number`, or raise RestartLimit with the first failure's story."""
        key, now = (kind, number), time.monotonic()
        times = self._times[key]
        while times and now - times[0] > self.window:
            times.popleft()
        if not times:
            self._first[key] = story
        if len(times) >= self.limit:
            raise RestartLimit(
                f"{kind} {number} failed again after {len(times)} restarts within {self.window:g} s "
                f"(max_restarts={self.limit}). The first failure:\n{self._first[key]}"
            )
        times.append(now)
        self.total += 1
