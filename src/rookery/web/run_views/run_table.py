"""The table of all runs. A folder whose drive does not answer holds up no other."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from rookery.web.place_threads import PlaceThreads
from rookery.web.run_folders import RunFolders
from rookery.web.run_views.run_index import RunIndex, newest_first
from rookery.web.run_views.table_changes import TableChanges

SILENT_SECONDS = 3.0  # in which no run of a folder could be read
LOOK_SECONDS = 0.25


class RunTable:
    """Reads each folder in threads of its own."""

    def __init__(self, folders: RunFolders, index: RunIndex, changes: TableChanges, threads: PlaceThreads) -> None:
        self._folders, self._index, self._changes, self._threads = folders, index, changes, threads
        self._looks: dict[str, asyncio.Future[None]] = {}
        self._began: dict[str, float] = {}

    async def read(self) -> dict[str, Any]:
        """`runs`, the newest first; the `cursor` with which a stream of the table continues; and the folders that are
        `silent`: their runs are as they were last seen."""
        for place in self._folders.places:
            if place not in self._looks or self._looks[place].done():
                self._began[place] = time.monotonic()
                self._looks[place] = self._threads.start(place, self._look, place)
        while waiting := [place for place in self._folders.places if not self._is_over(place)]:
            await asyncio.wait([self._looks[place] for place in waiting], timeout=LOOK_SECONDS)
        silent = [place for place, look in self._looks.items() if not look.done()]
        for look in self._looks.values():
            if look.done():
                look.result()
        rows, cursor = self._changes.table()
        return {"runs": newest_first(rows), "cursor": cursor, "silent": silent}

    def _look(self, place: str) -> None:
        self._changes.take(self._index.rows(place), place)

    def _is_over(self, place: str) -> bool:
        """Whether a folder has been read, or does not answer. One with many runs takes long, but gets on."""
        moved = max(self._began[place], self._index.moved(place))
        return self._looks[place].done() or time.monotonic() - moved > SILENT_SECONDS
