"""What all routes of the dashboard share."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rookery.web.run_folders import RunFolders

ALL_PLACES = "*"  # whose threads do what is about several folders; no folder has this name
THREADS = 3  # of each folder
PATIENCE_SECONDS = 20.0

T = TypeVar("T")


@dataclass
class DashboardState:
    """What is shown, and what may be done.

    Attributes:
        folders: Where runs, studies and leagues are.
        allow_control: Whether runs may be stopped, resumed, tagged and hidden from the page.
        parts: Long-lived objects of the packages below, by name; each is made on first use by `part`.
        csrf: What our own page reads and sends with every change; no page of another site can read it.
    """

    folders: RunFolders
    allow_control: bool = False
    parts: dict[str, Any] = field(default_factory=dict)
    csrf: str = field(default_factory=secrets.token_urlsafe, repr=False)

    def part(self, name: str, make: Callable[[], Any]) -> Any:
        """The long-lived object of this name, made on first use. Only the event loop asks, so that there is one."""
        if name not in self.parts:
            self.parts[name] = make()
        return self.parts[name]


def state_of(request: Request) -> DashboardState:
    """The state of the dashboard that answers a request."""
    found: DashboardState = request.app.state.dashboard
    return found


class PlaceThreads:
    """Runs functions that read files, outside the event loop: a few threads for each folder of runs, so that a drive
    that does not answer holds up nothing else."""

    def __init__(self) -> None:
        self._pools: dict[str, ThreadPoolExecutor] = {}

    def start(self, place: str, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """The result, when it is there. A thread cannot be ended: the future outlives the request that waits for it."""
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
    """Those of a dashboard."""
    found: PlaceThreads = state.part("place threads", PlaceThreads)
    return found


async def json_answer(state: DashboardState, place: str, make: Callable[[], Any]) -> Response:
    """What `make` returns, made in a thread of a place and encoded there; NaN and infinity become null."""
    if place != ALL_PLACES:
        state.folders.folder(place)  # an unknown one gets no threads
    data = await place_threads(state).run(place, lambda: encoded(make()))
    return Response(data, media_type="application/json")


def encoded(value: Any) -> bytes:
    """The value as JSON. A name that is not UTF-8 has its odd bytes replaced."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        return orjson.dumps(_plain(value), option=orjson.OPT_SERIALIZE_NUMPY)


def _plain(value: Any) -> Any:
    """The value without what JSON cannot hold: lone surrogates, and integers beyond 64 bits."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_plain(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return float(value) if isinstance(value, int) and abs(value) >= 1 << 63 else value
