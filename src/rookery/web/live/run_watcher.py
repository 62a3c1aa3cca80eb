"""Looks at the runs that somebody follows, a few times a second, for all their readers at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from rookery.web.live.event_frames import HEARTBEAT, frame
from rookery.web.live.metrics_reader import Chunk, end_of
from rookery.web.live.position import Position
from rookery.web.live.run_tail import RunTail
from rookery.web.place_threads import PlaceThreads

LOOK_SECONDS = 0.2
HEARTBEAT_SECONDS = 15.0


class RunWatcher:
    """The runs that are followed; while none is, it does nothing."""

    def __init__(self, threads: PlaceThreads) -> None:
        self._threads = threads
        self._tails: dict[tuple[str, Path], RunTail] = {}
        self._looking: dict[str, asyncio.Task[None]] = {}

    async def events(self, place: str, path: Path, position: Position | None) -> AsyncGenerator[bytes, None]:
        """The frames of a run's stream, without an end: what came after `position`, or from now on."""
        async with self._followed(place, path) as tail:
            if position is None:
                position = await self._threads.start(place, end_of, tail.metrics)
            yield frame("ready", {"seconds": LOOK_SECONDS}, position)
            told, version = None, -1
            while True:
                if tail.state != told:
                    told = tail.state
                    yield frame("state", {"state": told})
                if not await tail.changed_since(version, HEARTBEAT_SECONDS):
                    yield HEARTBEAT
                    continue
                version = tail.version
                async for chunk in self._chunks(place, tail, position):
                    position = chunk.position if chunk else position
                    yield chunk.frames if chunk else HEARTBEAT

    async def _chunks(self, place: str, tail: RunTail, position: Position) -> AsyncIterator[Chunk | None]:
        """What there is to read now, bit by bit; None while a drive does not answer."""
        more = True
        while more:
            reading = tail.read(position, lambda *call: self._threads.start(place, *call))
            while not (await asyncio.wait({reading}, timeout=HEARTBEAT_SECONDS))[0]:
                yield None
            chunk = reading.result()
            position, more = chunk.position, chunk.more
            yield chunk

    @asynccontextmanager
    async def _followed(self, place: str, path: Path) -> AsyncIterator[RunTail]:
        tail = self._tails.setdefault((place, path), RunTail(path))
        tail.readers += 1
        if place not in self._looking or self._looking[place].done():
            self._looking[place] = asyncio.create_task(self._look(place))
        try:
            yield tail
        finally:
            tail.readers -= 1
            if not tail.readers:
                self._tails.pop((place, path), None)

    async def _look(self, place: str) -> None:
        """Look at the runs of one folder for as long as some are followed."""
        while tails := [tail for (where, _), tail in self._tails.items() if where == place]:
            changed = await self._threads.start(place, lambda tails=tails: [tail for tail in tails if tail.look()])
            for tail in changed:
                tail.wake()
            await asyncio.sleep(LOOK_SECONDS)

    def close(self) -> None:
        for task in self._looking.values():
            with suppress(RuntimeError):  # its event loop has ended
                task.get_loop().call_soon_threadsafe(task.cancel)
