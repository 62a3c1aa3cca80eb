"""The events of a run that are not progress: few among many. Found without parsing the lines of progress."""

from __future__ import annotations

import os
import re
import time
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Any

from rookery.files import open_plain, pread
from rookery.monitor.jsonl import METRICS
from rookery.web.live.event_frames import parse_event
from rookery.web.live.metrics_reader import LONGEST_LINE, ends_at, position_at
from rookery.web.live.position import Position

RARE = re.compile(rb'"kind":\s*"(?!progress")')
WORKER_MEMORY = b'"system/memory_worker_'
READ_BYTES = 1 << 18  # at once: what is read in several threads stays in the memory of each
SECONDS = 0.3  # of one call; the next one goes on
FIRST_SECONDS = 0.02  # of the first: the page of the run waits for it, and its curves are read at the same time
MOST_EVENTS = 20_000
KEPT_RUNS = 64


class RareEvents:
    """The events of one run, as far as they have been read. `update` reads what was added since the last time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / METRICS
        self._lock = Lock()
        self._position = Position(0)
        self._events: list[dict[str, Any]] = []
        self.progress: dict[str, Any] = {}
        self.memory: dict[str, Any] = {}  # the last progress with the memory of workers: few have it
        self.complete = False

    @property
    def position(self) -> Position:
        """Until where it was read."""
        return self._position

    def update(self, seconds: float = SECONDS) -> list[dict[str, Any]]:
        """The events, without those after a checkpoint from which the run was resumed. `complete` says whether the end
        of the file was reached in time."""
        with self._lock:
            seconds = seconds if self._position.offset else min(seconds, FIRST_SECONDS)
            try:
                with os.fdopen(open_plain(self._path, os.O_RDONLY), "rb", buffering=0) as file:
                    self._read(file.fileno(), time.monotonic() + seconds)
            except OSError:  # no event yet, or the run is gone
                self.complete = True
            return list(self._events)

    def _read(self, fd: int, deadline: float) -> None:
        if not ends_at(fd, self._position):  # another file
            self._position, self._events, self.progress, self.memory = Position(0), [], {}, {}
        self.complete = False
        while not self.complete and time.monotonic() < deadline:
            data, end = _lines_at(fd, self._position.offset)
            for event in _rare(data[:end]):
                self._add(event)
            self.progress = _last_progress(data[:end], b'"steps_per_second"') or self.progress
            self.memory = _last_progress(data[:end], WORKER_MEMORY) or self.memory
            self._position = position_at(fd, self._position.offset + end)
            self.complete = not end or len(data) < READ_BYTES

    def _add(self, event: dict[str, Any]) -> None:
        resumed_from = event.get("resumed_from") if event["kind"] == "start" else None
        if isinstance(resumed_from, int | float):
            self._events = [before for before in self._events if before["step"] <= resumed_from]
        self._events.append(event)
        if len(self._events) > MOST_EVENTS:  # the first of them has the facts, the last ones are the news
            del self._events[MOST_EVENTS // 4 : MOST_EVENTS // 2]


class RareEventsOfRuns:
    """Those of the runs that were asked for of late."""

    def __init__(self) -> None:
        self._runs: OrderedDict[Path, RareEvents] = OrderedDict()
        self._lock = Lock()

    def of(self, folder: Path) -> RareEvents:
        """Those of a run, which may have been read before."""
        with self._lock:
            found = self._runs.setdefault(folder, RareEvents(folder))
            self._runs.move_to_end(folder)
            if len(self._runs) > KEPT_RUNS:
                self._runs.popitem(last=False)
        return found


def _lines_at(fd: int, offset: int) -> tuple[bytes, int]:
    """What is read at once, and where in it the complete lines end. A line that is too long is passed over."""
    data = pread(fd, READ_BYTES, offset)
    end = data.rfind(b"\n") + 1
    if not end and len(data) == READ_BYTES:
        data = pread(fd, LONGEST_LINE, offset)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == LONGEST_LINE:
            end = len(data)
    return data, end


def _rare(data: bytes) -> list[dict[str, Any]]:
    found, at = [], 0
    while match := RARE.search(data, at):
        start, at = data.rfind(b"\n", 0, match.start()) + 1, data.find(b"\n", match.end()) + 1 or len(data)
        event = parse_event(data[start:at])
        if event and event["kind"] != "progress":
            found.append(event)
    return found


def _last_progress(data: bytes, having: bytes) -> dict[str, Any] | None:
    """The last one that has a value, such as a speed: the very last may be of an evaluation's time alone."""
    at = len(data)
    for _ in range(20):
        at = data.rfind(having, 0, at)
        if at < 0:
            return None
        start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at) + 1 or len(data)
        event = parse_event(data[start:end])
        if event and event["kind"] == "progress":
            return event
        at = start
    return None
