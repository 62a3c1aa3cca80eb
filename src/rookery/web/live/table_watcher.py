"""Looks at the runs of all folders for those who follow the table.

Runs that train, or did so a minute ago, are looked at twice a second, all others when a run has come or gone, and every
few seconds. A look at many runs takes time, which training runs may need: the more it takes, the rarer it is.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rookery.web.dashboard_state import PlaceThreads
from rookery.web.live.event_stream import HEARTBEAT, cancel_soon, frame, is_set
from rookery.web.marks import Marks
from rookery.web.run_folders import NotShown, RunFolders, file_stamp
from rookery.web.run_views.run_index import RunIndex
from rookery.web.run_views.run_table import TableChanges

LOOK_SECONDS = 0.5
ALL_SECONDS = 4.0
REST = 50  # times the CPU seconds of a look until the next one; twice as many until the next one at all runs
MOST_SECONDS = 30.0
HEARTBEAT_SECONDS = 15.0
FIRST_SECONDS = 3.0
RECENT_SECONDS = 60.0


@dataclass
class _Place:
    """What is known of one folder of runs between two looks; used by one thread at a time."""

    name: str
    busy: list[str] = field(default_factory=list)
    stamp: tuple[Any, ...] = ()
    due: float = 0.0
    soonest: float = 0.0


class TableWatcher:
    """The table of runs as it changes; while nobody follows it, nothing is read."""

    def __init__(
        self, folders: RunFolders, index: RunIndex, changes: TableChanges, marks: Marks, threads: PlaceThreads
    ) -> None:
        self._changes = changes
        self._folders, self._index, self._marks, self._threads = folders, index, marks, threads
        self._readers = self._told = 0
        self._looked: set[str] = set()
        self._looking: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    async def events(self, cursor: str | None) -> AsyncGenerator[bytes, None]:
        """The frames of the table's stream, without an end."""
        self._readers += 1
        self._look_at_all()
        try:
            yield HEARTBEAT
            await self._first_rows()
            while True:
                changed = self._changed
                data, cursor = await self._threads.start("", self._changes.frame_since, cursor, frame)
                if data:
                    yield data
                elif not await is_set(changed, HEARTBEAT_SECONDS):
                    yield HEARTBEAT
        finally:
            self._readers -= 1

    async def _first_rows(self) -> None:
        """Wait until every folder was looked at, but not for a drive that does not answer."""
        deadline = time.monotonic() + FIRST_SECONDS
        while len(self._looked) < len(self._folders.places) and time.monotonic() < deadline:
            await is_set(self._changed, deadline - time.monotonic())

    def _look_at_all(self) -> None:
        for place in self._folders.places:
            if place not in self._looking or self._looking[place].done():
                self._looking[place] = asyncio.create_task(self._look(_Place(place)))

    async def _look(self, place: _Place) -> None:
        while self._readers:
            cost = await self._threads.start(place.name, self._look_once, place)
            if self._changes.version != self._told or place.name not in self._looked:
                self._looked.add(place.name)
                self._wake()
            await asyncio.sleep(max(LOOK_SECONDS, min(MOST_SECONDS, REST * cost)))

    def _wake(self) -> None:
        self._told = self._changes.version
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _look_once(self, place: _Place) -> float:
        """In a thread; returns the seconds of CPU that it took. On a busy machine the time on the clock says less."""
        began = time.thread_time()
        # The folder's changes when a run in it is made, moved or deleted.
        stamp = file_stamp(os.path.realpath(self._folders.places[place.name])), self._marks.stamp
        if time.monotonic() < (place.due if stamp == place.stamp else place.soonest):
            self._look_at_busy(place)
            return time.thread_time() - began
        self._look_at_every_run(place)
        place.stamp, cost = stamp, time.thread_time() - began
        place.due = time.monotonic() + max(ALL_SECONDS, min(MOST_SECONDS, 2 * REST * cost))
        place.soonest = time.monotonic() + REST * cost / 4  # where runs come and go all the time
        return 0.0  # the next look is at few

    def _look_at_every_run(self, place: _Place) -> None:
        rows = self._index.rows(place.name)
        self._changes.take(rows, place.name)
        place.busy = [row["name"] for row in rows if _is_busy(row)]

    def _look_at_busy(self, place: _Place) -> None:
        for name in place.busy:
            try:
                self._changes.take_one(self._index.row(place.name, name))
            except NotShown:
                place.due = place.soonest  # deleted: look at all

    def close(self) -> None:
        cancel_soon(self._looking.values())


def _is_busy(row: Mapping[str, Any]) -> bool:
    """Whether a run trains, or may have just begun or be resumed soon."""
    return row["state"] == "running" or (row["updated"] or 0.0) > time.time() - RECENT_SECONDS
