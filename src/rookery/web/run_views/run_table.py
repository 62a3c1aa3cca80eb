"""The table of all runs. A folder whose drive does not answer holds up no other."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any

from rookery.web.dashboard_state import PlaceThreads
from rookery.web.run_folders import RunFolders
from rookery.web.run_views.run_index import RunIndex, newest_first

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


MOST_GONE = 10_000  # runs that are remembered to be gone; a reader from before gets the whole table


class TableChanges:
    """The rows as they were last seen, each with the version of the table in which it changed.

    A reader has seen a version, its cursor. It gets the present rows of all runs that have changed since, however
    often they did: a slow reader misses steps in between, and costs nothing. The cursor of another server, or of one
    before its restart, is answered by the whole table.
    """

    def __init__(self) -> None:
        self._server = secrets.token_hex(6)
        self._lock = Lock()
        self._rows: dict[str, Mapping[str, Any]] = {}
        self._changed: dict[str, int] = {}
        self._gone: dict[str, int] = {}
        self._oldest = 0  # cursors before this version are answered by the whole table
        self._frames: dict[int, bytes] = {}  # of the present version, by the version of the reader
        self.version = 0

    @property
    def cursor(self) -> str:
        """What a reader has seen who has seen everything."""
        return f"{self._server}-{self.version}"

    def take(self, rows: Iterable[Mapping[str, Any]], place: str | None = None) -> str:
        """Take note of all rows of the table, or of all in one place; returns the cursor after them."""
        with self._lock:
            seen = {str(row["id"]): row for row in rows}
            mine = [name for name in self._rows if place is None or name.startswith(f"{place}/")]
            self._note(
                {name: row for name, row in seen.items() if self._rows.get(name) != row},
                [name for name in mine if name not in seen],
            )
            return self.cursor

    def table(self) -> tuple[list[Mapping[str, Any]], str]:
        """All rows as they were last seen, and the cursor after them."""
        with self._lock:
            return list(self._rows.values()), self.cursor

    def take_one(self, row: Mapping[str, Any]) -> None:
        with self._lock:
            name = str(row["id"])
            self._note({name: row} if self._rows.get(name) != row else {}, [])

    def frame_since(self, cursor: str | None, encode: Callable[[str, Any, str], bytes]) -> tuple[bytes, str]:
        """What has changed since a cursor, and the cursor after it. `encode` makes a message of a stream of its kind,
        values and id, once for all readers; it is empty if nothing has changed."""
        with self._lock:
            version = self._version_of(cursor)
            if version == self.version:
                return b"", self.cursor
            if version not in self._frames:
                self._frames[version] = encode("rows", self._since(version), self.cursor)
            return self._frames[version], self.cursor

    def _note(self, changed: Mapping[str, Mapping[str, Any]], gone: Iterable[str]) -> None:
        gone = list(gone)
        if not changed and not gone:
            return
        self.version += 1
        self._frames.clear()
        for name in gone:
            del self._rows[name], self._changed[name]
            self._gone[name] = self.version
        for name, row in changed.items():
            self._gone.pop(name, None)
            self._rows[name], self._changed[name] = row, self.version
        if len(self._gone) > MOST_GONE:
            self._gone.clear()
            self._oldest = self.version

    def _version_of(self, cursor: str | None) -> int:
        """The version of a cursor; -1 if it is not known any more."""
        server, _, number = (cursor or "").partition("-")
        known = server == self._server and number.isascii() and number.isdecimal() and len(number) < 19
        return int(number) if known and self._oldest <= int(number) <= self.version else -1

    def _since(self, version: int) -> dict[str, Any]:
        if version < 0:
            return {"rows": list(self._rows.values()), "gone": [], "all": True}
        return {
            "rows": [self._rows[name] for name, at in self._changed.items() if at > version],
            "gone": [name for name, at in self._gone.items() if at > version],
        }
