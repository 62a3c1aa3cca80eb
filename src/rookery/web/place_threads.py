"""Threads that read files, a few for each folder of runs: a drive that does not answer holds up nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

from rookery.web.dashboard_state import DashboardState

THREADS = 3  # of each folder
PATIENCE_SECONDS = 20.0

T = TypeVar("T")


class PlaceThreads:
    """Runs functions that read files, outside the event loop."""

    def __init__(self) -> None:
        self._pools: dict[str, ThreadPoolExecutor] = {}

    def start(self, place: str, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """The result, when it is there. A thread cannot be ended: the future outlives whoever waits for it."""
        if place not in self._pools:
            self._pools[place] = ThreadPoolExecutor(THREADS, f"dashboard {place}")
        return asyncio.get_running_loop().run_in_executor(self._pools[place], function, *arguments)

    async def run(self, place: str, function: Callable[..., T], *arguments: Any) -> T:
        """The result. A request does not wait for a drive for ever."""
        try:
            return await asyncio.wait_for(asyncio.shield(self.start(place, function, *arguments)), PATIENCE_SECONDS)
        except TimeoutError:
            raise HTTPException(504, f"the folder {place!r} does not answer: is its drive still there?") from None

    def close(self) -> None:
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)


def place_threads(state: DashboardState) -> PlaceThreads:
    """Those of a dashboard. Only the event loop asks, so that there is one of each."""
    found: PlaceThreads = state.parts.setdefault("place threads", PlaceThreads())
    return found
