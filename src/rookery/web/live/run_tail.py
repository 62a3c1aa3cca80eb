"""One run that is followed, by any number of readers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from rookery.monitor.jsonl import METRICS
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_record import is_busy
from rookery.training.storage.runs_table import row
from rookery.web.live.metrics_reader import Chunk, read_chunk
from rookery.web.live.position import Position

GONE = "gone"  # the state of a run whose folder is not there
LOOKS_PER_STATE = 4  # the lock is tried at every such look
KEPT_CHUNKS = 8

Stamp = tuple[int, int, int] | None  # inode, size and time of change


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
        self._stamp: Stamp = None
        self._busy: bool | None = None
        self._changed = asyncio.Event()
        self._reads: dict[Position, asyncio.Future[Chunk]] = {}

    def look(self) -> bool:
        """Whether the file or the state of the run has changed since the last look."""
        stamp = _stamp(self.metrics)
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
        if self.version != version:
            return True
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def read(self, position: Position, start: Callable[..., asyncio.Future[Chunk]]) -> asyncio.Future[Chunk]:
        """The events after a position. `start` runs a function in a thread."""
        if position not in self._reads:
            if len(self._reads) >= KEPT_CHUNKS:
                del self._reads[next(iter(self._reads))]
            self._reads[position] = start(read_chunk, self.metrics, position)
        return self._reads[position]


def _stamp(path: Path) -> Stamp:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
