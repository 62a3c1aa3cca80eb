"""Files to which records are appended, each completely and in one system call; and metrics as such: one strict JSON
object per event, in order."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from rookery.files import named, open_to_append
from rookery.monitor.events import Event

METRICS, EVALUATIONS = "metrics.jsonl", "evaluations.jsonl"
LONGEST_LINE = 1 << 16


class JsonLines:
    """Appends every event to `metrics.jsonl` in the run's folder, and evaluations also to `evaluations.jsonl`.

    A line is written in one call, so that a killed run loses at most one line. The same events as columns follow in
    `metrics.columns`.
    """

    def __init__(self, folder: str | Path) -> None:
        from rookery.monitor.column_file import COLUMNS, GrowingColumns  # late: readers of lines do not need NumPy

        self._metrics = open_lines(Path(folder) / METRICS)
        self._evaluations = open_lines(Path(folder) / EVALUATIONS)
        self._columns = GrowingColumns(Path(folder) / COLUMNS, self._metrics)

    def write(self, event: Event) -> None:
        if event.kind == "doing":
            return
        line = encode(event)
        append_record(self._metrics, line)
        self._columns.add(line)
        if event.kind == "evaluation":
            append_record(self._evaluations, line)

    def close(self) -> None:
        self._columns.close()
        self._metrics.close()
        self._evaluations.close()


def read(path: str | Path) -> list[Event]:
    """The events of a file, in order; the incomplete line of a killed run is skipped."""
    with open(path, "rb") as file:
        return [event for event in map(_decode, file) if event is not None]


def history(path: str | Path) -> list[Event]:
    """The events of the run, without those after a checkpoint from which it was resumed."""
    kept: list[Event] = []
    for event in read(path):
        resumed_from = event.values.get("resumed_from") if event.kind == "start" else None
        if resumed_from is not None:
            kept = [before for before in kept if before.step <= resumed_from]
        kept.append(event)
    return kept


def encode(event: Event) -> bytes:
    """
    >>> encode(Event("progress", 8, {"loss/value": float("nan")}, time=1.5))
    b'{"kind": "progress", "step": 8, "time": 1.5, "loss/value": null}\\n'
    """
    fields = {"kind": event.kind, "step": event.step, "time": event.time, **event.values}
    return json.dumps(plain(fields), allow_nan=False, default=str).encode() + b"\n"


def _decode(line: bytes) -> Event | None:
    try:
        values = json.loads(line)
        return Event(values.pop("kind"), values.pop("step"), time=values.pop("time"), values=values)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def plain(value: Any) -> Any:
    """The value as strict JSON has it: NaN and infinity become null, NumPy's numbers Python's."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    return value


def open_lines(path: Path) -> FileIO:
    """Open a file of JSON lines for appending, and remove an incomplete line that a killed run may have left."""
    file = open_append_only(path)
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - LONGEST_LINE))
    tail = file.read()
    half = tail[tail.rfind(b"\n") + 1 :]
    if half and _decode(half):  # complete, but without a newline
        append_record(file, b"\n")
    elif half:
        file.truncate(end - len(half))
    return file


def open_append_only(path: Path, parents: bool = True) -> FileIO:
    """Open a file to append to. It has no buffer: after a failed write, a buffer would fail again at `close`. Without
    `parents`, its folder must exist."""
    if parents:
        path.parent.mkdir(parents=True, exist_ok=True)
    file = FileIO(open_to_append(path), "a+")
    file.name = str(path)  # the path instead of the descriptor, for error messages
    return file


def append_record(file: FileIO, record: bytes) -> None:
    """Write `record`; if only a part of it was written, the disk is full."""
    with named(Path(file.name)):
        if file.write(record) != len(record):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
