"""The log of a run, as it would be on a terminal: written from its events, so that every run has one."""

from __future__ import annotations

import io
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from rookery.files import open_plain, pread
from rookery.monitor.events import Event
from rookery.monitor.jsonl import METRICS
from rookery.monitor.log_lines import LogLines
from rookery.web.live.event_frames import parse_event

PART_BYTES = 1 << 20  # of metrics, for one answer
LAST_BYTES = 1 << 18  # of metrics, for the first one
BEFORE_BYTES = 1 << 16  # that are read again: whether a line of progress is due depends on those before it
LONGEST_LINE_TEXT = 4000


def run_log(folder: Path, start: int | None) -> dict[str, Any]:
    """The log of the events after a byte of the metrics, or its last part; `next` is where to go on, `end` whether that
    is all there is now. `again` says that the file is another one, so that the text is not to be added to the last."""
    try:
        with os.fdopen(open_plain(folder / METRICS, os.O_RDONLY), "rb", buffering=0) as file:
            fd = file.fileno()
            size = os.fstat(fd).st_size
            again = start is not None and (start > size or not _is_line_start(fd, start))
            first = _next_line(fd, max(0, size - LAST_BYTES)) if start is None or again else start
            return {**_part(fd, first), "again": again}
    except OSError:
        return {"text": "", "next": start or 0, "end": True, "again": False}


def _part(fd: int, start: int) -> dict[str, Any]:
    data = pread(fd, PART_BYTES, start)
    end = data.rfind(b"\n") + 1
    if not end and len(data) == PART_BYTES:
        end = len(data)  # a line that is too long for a log
    screen = io.StringIO()
    lines = LogLines(stream=screen)
    for line in [_first_line(fd), *_lines_before(fd, start)]:
        _write(lines, line)
    screen.seek(0)
    screen.truncate()
    text = "".join(_stamped(lines, line, screen) for line in data[:end].splitlines())
    return {"text": text, "next": start + end, "end": len(data) < PART_BYTES}


def _stamped(lines: LogLines, line: bytes, screen: io.StringIO) -> str:
    """What an event adds to the log, with its time."""
    event = _write(lines, line)
    text = screen.getvalue()
    screen.seek(0)
    screen.truncate()
    if event is None or not text:
        return ""
    when = _time_text(event.time)
    return "".join(f"{when}  {part[:LONGEST_LINE_TEXT]}\n" for part in text.splitlines())


def _write(lines: LogLines, line: bytes) -> Event | None:
    values = parse_event(line)
    if values is None:
        return None
    event = Event(values.pop("kind"), values.pop("step"), time=_number(values.pop("time", 0.0)), values=values)
    try:
        lines.write(event)
    except (TypeError, ValueError, KeyError, ArithmeticError):  # of somebody else's events, whose values are no numbers
        return None
    return event


def _first_line(fd: int) -> bytes:
    """The start of the run: it has the number of steps, of which lines of progress show a share."""
    return pread(fd, BEFORE_BYTES, 0).partition(b"\n")[0]


def _lines_before(fd: int, start: int) -> list[bytes]:
    first = max(0, start - BEFORE_BYTES)
    lines = pread(fd, start - first, first).splitlines()
    return lines[1:]  # the first is cut, or is the start of the run


def _next_line(fd: int, offset: int) -> int:
    if offset == 0:
        return 0
    return offset + pread(fd, LAST_BYTES, offset).find(b"\n") + 1


def _is_line_start(fd: int, offset: int) -> bool:
    return offset == 0 or pread(fd, 1, offset - 1) == b"\n"


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _time_text(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).isoformat(sep=" ", timespec="seconds")
    except (OSError, OverflowError, ValueError):
        return "-"
