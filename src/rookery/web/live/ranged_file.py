"""A file of a run as an answer: whole or in ranges, and never as a page that the browser would run."""

from __future__ import annotations

import os
import re
from io import FileIO
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rookery.files import open_plain, pread

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
    """Sends a regular file, as long as it is when it is opened: a run may append to it meanwhile."""

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
    """The bytes that are asked for. Several ranges at once are answered by the whole file, which is allowed."""
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
