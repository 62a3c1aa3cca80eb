"""What a page shows of the files of a run: its log, its episodes as points of a scatter plot, and any file by ranges.

The log is as it would be on a terminal: written from the events, so that every run has one.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rookery.files import open_plain, pread
from rookery.monitor.episode_file import EPISODES
from rookery.monitor.events import Event
from rookery.monitor.jsonl import METRICS
from rookery.monitor.log_lines import LogLines
from rookery.training.storage.run_record import number
from rookery.web.live.event_stream import parse_event
from rookery.web.run_views.line_file import LineFile

PART_BYTES = 1 << 20  # of metrics, for one answer
LAST_BYTES = 1 << 18  # of metrics, for the first one
BEFORE_BYTES = 1 << 16  # that are read again: whether a line of progress is due depends on those before it
LONGEST_LINE_TEXT = 4000


def run_log(folder: Path, start: int | None) -> dict[str, Any]:
    """The log of the events after a byte of the metrics, or its last part; `next` is where to continue, `end` whether
    that is all there is now. `again` says that the file is another one, so that the text is not to be added to the
    last."""
    try:
        with os.fdopen(open_plain(folder / METRICS, os.O_RDONLY), "rb", buffering=0) as file:
            fd = file.fileno()
            size = os.fstat(fd).st_size
            again = start is not None and (start > size or (start > 0 and pread(fd, 1, start - 1) != b"\n"))
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
    first = max(0, start - BEFORE_BYTES)
    # The start of the run has the number of steps, of which lines of progress show a share.
    for line in [pread(fd, BEFORE_BYTES, 0).partition(b"\n")[0], *pread(fd, start - first, first).splitlines()[1:]]:
        _log_text(lines, line, screen)
    text = "".join(_log_text(lines, line, screen) for line in data[:end].splitlines())
    return {"text": text, "next": start + end, "end": len(data) < PART_BYTES}


def _log_text(lines: LogLines, line: bytes, screen: io.StringIO) -> str:
    """What an event adds to the log, with its time."""
    values = parse_event(line)
    if values is None:
        return ""
    begin, kind, step = screen.tell(), values.pop("kind"), values.pop("step")
    seconds = number(values.pop("time", 0.0)) or 0.0
    with suppress(TypeError, ValueError, KeyError, ArithmeticError):  # values of somebody else's that are not numbers
        lines.write(Event(kind, step, time=seconds, values=values))
        screen.seek(begin)
        when = _time_text(seconds)
        return "".join(f"{when}  {part[:LONGEST_LINE_TEXT]}\n" for part in screen.read().splitlines())
    return ""


def _next_line(fd: int, offset: int) -> int:
    if offset == 0:
        return 0
    return offset + pread(fd, LAST_BYTES, offset).find(b"\n") + 1


def _time_text(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).isoformat(sep=" ", timespec="seconds")
    except (OSError, OverflowError, ValueError):
        return "-"


MOST_POINTS = 20_000
WHOLE_BYTES = 2 << 20  # up to this size the file is read as a whole
COLUMNS = {"x": "step", "y": "return", "length": "length", "env": "env", "episode": "episode", "time": "time"}


def episode_sample(folder: Path, points: int) -> dict[str, Any]:
    """{x: steps, y: returns, length, env, episode, time, whole: whether these are all lines of the file}."""
    points = max(1, min(points, MOST_POINTS))
    lines, whole = list[bytes](), True
    with suppress(OSError), LineFile(folder / EPISODES) as file:
        whole = file.size <= WHOLE_BYTES
        lines = file.read(0, file.size).split(b"\n")[:-1] if whole else file.samples(points)
    if len(lines) > points:
        lines, whole = [lines[k * len(lines) // points] for k in range(points)], False
    return {**_columns(lines), "whole": whole}


def _columns(lines: Iterable[bytes]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for line in lines:
        episode = _parse(line)
        if episode is not None:
            for name, field in COLUMNS.items():
                columns[name].append(episode.get(field))
    return columns


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("step"), int | float) else None


READ_BYTES = 1 << 17
SHOWN = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
    ".mp4": "video/mp4", ".webm": "video/webm",
    **dict.fromkeys(
        (".txt", ".log", ".json", ".jsonl", ".toml", ".yaml", ".yml", ".md", ".csv", ".py"), "text/plain; charset=utf-8"
    ),
}  # fmt: skip
# A picture that may hold scripts: shown within a page, where they do not run, and downloaded when opened by itself.
DOWNLOADED = {".svg": "image/svg+xml"}
OTHER = "application/octet-stream"
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class Span(NamedTuple):
    """Bytes of a file from `start` to before `stop`."""

    start: int
    stop: int


class RangedFile(Response):
    """Sends a regular file, as long as it is when it is opened: a run may append to it in the meantime."""

    def __init__(self, path: Path, request: Request) -> None:
        self._file = _open(path)
        try:
            facts = os.fstat(self._file.fileno())
            tag = f'"{facts.st_ino:x}-{facts.st_mtime_ns:x}-{facts.st_size:x}"'
            self._span, status = _span(request, facts.st_size, tag)
        except HTTPException:
            self._file.close()
            raise
        super().__init__(status_code=status, headers=_headers(path.name, facts.st_size, tag, self._span, status))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            at, stop = self._span if scope["method"] != "HEAD" else (0, 0)
            while at < stop:
                data = await run_in_threadpool(pread, self._file.fileno(), min(READ_BYTES, stop - at), at)
                if not data:  # it was cut: the reader sees an incomplete answer
                    return
                at += len(data)
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


def _open(path: Path) -> FileIO:
    try:
        return FileIO(open_plain(path, os.O_RDONLY))
    except OSError as error:
        raise HTTPException(404, f"{path.name!r} cannot be read: {error.strerror or error}") from None


def _span(request: Request, size: int, tag: str) -> tuple[Span, int]:
    """The bytes that are requested. Several ranges at once are answered by the whole file, which is allowed."""
    found = RANGE.fullmatch(request.headers.get("range", "").replace(" ", ""))
    if not found or not any(found.groups()) or request.headers.get("if-range", tag) != tag:
        return Span(0, size), 200
    first, last = (int(group) if group else None for group in found.groups())
    if first is None:  # the last so many bytes
        first, last = max(0, size - (last or 0)), None
    stop = size if last is None else min(size, last + 1)
    if first >= stop:
        raise HTTPException(416, f"the file has {size} bytes", {"Content-Range": f"bytes */{size}"})
    return Span(first, stop), 206


def _headers(name: str, size: int, tag: str, span: Span, status: int) -> dict[str, str]:
    ending = os.path.splitext(name)[1].lower()
    headers = {
        "Content-Type": SHOWN.get(ending) or DOWNLOADED.get(ending, OTHER),
        "Content-Length": str(span.stop - span.start),
        "Content-Disposition": f"{'inline' if ending in SHOWN else 'attachment'}; filename*=UTF-8''{_quoted(name)}",
        "X-Content-Type-Options": "nosniff",
        "Accept-Ranges": "bytes",
        "ETag": tag,
        "Cache-Control": "no-cache",
    }
    return {**headers, "Content-Range": f"bytes {span.start}-{span.stop - 1}/{size}"} if status == 206 else headers


def _quoted(name: str) -> str:
    return quote(os.fsencode(name), safe="")
