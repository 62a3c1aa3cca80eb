"""Looks at the runs that somebody follows, a few times a second, for all their readers at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from rookery.monitor.jsonl import METRICS
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_record import is_busy
from rookery.training.storage.runs_table import row
from rookery.web.dashboard_state import PlaceThreads
from rookery.web.live.event_stream import HEARTBEAT, cancel_soon, frame, is_set
from rookery.web.live.metrics_reader import Chunk, Position, end_of, read_chunk
from rookery.web.run_folders import file_stamp

LOOK_SECONDS = 0.2
HEARTBEAT_SECONDS = 15.0
GONE = "gone"  # the state of a run whose folder is not there
LOOKS_PER_STATE = 4  # the lock is tried at every such look
KEPT_CHUNKS = 8


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
        cancel_soon(self._looking.values())


class RunTail:
    """What was last seen of a run. `look` is called in a thread, all else in the event loop.

    Readers that are at the same position share what is read from the file. Each has a position of its own, so that a
    slow one costs no memory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics = path / METRICS
        self.readers = 0
        self.state: str | None = None
        self.version = 0
        self._looks = 0
        self._stamp: tuple[int, int, int] | None = None
        self._busy: bool | None = None
        self._changed = asyncio.Event()
        self._reads: dict[Position, asyncio.Future[Chunk]] = {}

    def look(self) -> bool:
        """Whether the file or the state of the run has changed since the last look."""
        stamp = file_stamp(self.metrics)
        grown, self._stamp = stamp != self._stamp, stamp
        self._looks += 1
        if grown or self._looks % LOOKS_PER_STATE == 1:
            return self._look_at_state(grown) or grown
        return grown

    def _look_at_state(self, grown: bool) -> bool:
        """The state is read from files only if the file has grown or the lock was taken or released."""
        busy, before = is_busy(self.path / "run.lock"), self.state
        if self._stamp is None and not self.path.is_dir():
            self.state = GONE
        elif busy != self._busy or before in (None, GONE) or (grown and not busy):
            self.state = "running" if busy else str(row(RunDir(self.path))["state"])
        self._busy = busy
        return self.state != before

    def wake(self) -> None:
        """Let all readers read on."""
        self.version += 1
        self._reads.clear()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def changed_since(self, version: int, seconds: float) -> bool:
        """Wait until something has changed since `version` was current, for so long at most."""
        return self.version != version or await is_set(self._changed, seconds)

    def read(self, position: Position, start: Callable[..., asyncio.Future[Chunk]]) -> asyncio.Future[Chunk]:
        """The events after a position. `start` runs a function in a thread."""
        if position not in self._reads:
            if len(self._reads) >= KEPT_CHUNKS:
                del self._reads[next(iter(self._reads))]
            self._reads[position] = start(read_chunk, self.metrics, position)
        return self._reads[position]
