"""How often a process of the cluster may be lost before that ends the run."""

from __future__ import annotations

import time
from collections import deque

from rookery.config import RunConfig
from rookery.errors import RestartLimit, WorkerDied

RESTART_WINDOW = 60.0  # seconds, in which `max_restarts` of a process are allowed


class ProcessLosses:
    """Of one process and those that take its place."""

    def __init__(self, config: RunConfig) -> None:
        self._raises, self._most = config.on_failure == "raise", config.max_restarts
        self._lost_at: deque[float] = deque()

    def count(self, name: str, reason: str) -> None:
        """It was lost for this reason; WorkerDied or RestartLimit if the run is to end."""
        now = time.monotonic()
        if self._raises:
            raise WorkerDied(f"{name} {reason}")
        while self._lost_at and now - self._lost_at[0] > RESTART_WINDOW:
            self._lost_at.popleft()
        if len(self._lost_at) >= self._most:
            raise RestartLimit(
                f"{name} {reason}, after {len(self._lost_at)} restarts within {RESTART_WINDOW:g} s "
                f"(max_restarts={self._most})"
            )
        self._lost_at.append(now)
