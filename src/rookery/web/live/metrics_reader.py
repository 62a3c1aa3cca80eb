"""Reads what a file of metrics has grown by, as frames of a stream.

Nothing is remembered between two reads but the position. What the run did to its file in between, it shows by itself:
it was appended to, replaced by a shorter one (the run was resumed from a checkpoint), or by that of another run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self
from zlib import crc32

from rookery.files import open_plain, pread
from rookery.web.live.event_stream import frame, line_frames, parse_event

HEAD_BYTES = 512  # of the first line: a run's begins with the time of its start, so that no two are equal
TAIL_BYTES = 128  # before the place
CHUNK_BYTES = 1 << 16
LONGEST_LINE = 4 << 20  # a longer one is omitted
SCAN_BYTES = 4 << 20  # at a time
EVERYTHING = -1  # the step of a reset after which nothing is left
_TEXT = re.compile(r"(\d{1,18})(?:-([0-9a-f]{8})([0-9a-f]{8}))?")


class Position(NamedTuple):
    """The byte offset after a line, with checksums of the beginning of the file and of what is before the offset.

    A run that is resumed replaces its file by a shorter one, and another run may get its name. The checksums show that,
    also after the server was started again. Without them, only a line must end at the offset.

    >>> str(Position.parse("120-0000000a0000000b"))
    '120-0000000a0000000b'
    """

    offset: int
    head: int | None = None
    tail: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """The position of an id. A bare number of bytes is one as well."""
        found = _TEXT.fullmatch(text)
        if not found:
            raise ValueError(
                f"{text[:80]!r} is not the id of an event: take the last one of the stream, or leave it out"
            )
        offset, head, tail = found.groups()
        return cls(int(offset)) if head is None else cls(int(offset), int(head, 16), int(tail, 16))

    def __str__(self) -> str:
        return str(self.offset) if self.head is None or self.tail is None else self._with_checksums()

    def _with_checksums(self) -> str:
        return f"{self.offset}-{self.head:08x}{self.tail:08x}"


def head_checksum(beginning: bytes) -> int:
    """The checksum of the first line, of as much of it as is compared."""
    return crc32(beginning[:HEAD_BYTES].partition(b"\n")[0])


def tail_checksum(before: bytes) -> int:
    """The checksum of what is before an offset."""
    return crc32(before[-TAIL_BYTES:])


@dataclass(frozen=True)
class Chunk:
    """Some frames, the position after them, and whether there is more to read at once."""

    frames: bytes
    position: Position
    more: bool = False


def read_chunk(path: Path, position: Position) -> Chunk:
    """The events after a position. If the file is not the one that the position is of, they begin with a reset. A file
    that cannot be read has no events."""
    try:
        with os.fdopen(open_plain(path, os.O_RDONLY), "rb", buffering=0) as file:
            fd = file.fileno()
            return _grown(fd, position) if ends_at(fd, position) else _restarted(fd, position)
    except OSError:
        return Chunk(b"", position)


def end_of(path: Path) -> Position:
    """The position after the last complete line."""
    try:
        with os.fdopen(open_plain(path, os.O_RDONLY), "rb", buffering=0) as file:
            fd = file.fileno()
            return position_at(fd, _last_line_end(fd, os.fstat(fd).st_size))
    except OSError:
        return Position(0)


def ends_at(fd: int, position: Position) -> bool:
    """Whether the file still begins with what was read until this position."""
    if position.offset == 0:
        return True
    before = _before(fd, position.offset)
    if len(before) < min(TAIL_BYTES, position.offset):
        return False
    if position.tail is None:
        return before.endswith(b"\n")
    return tail_checksum(before) == position.tail and _head(fd) == position.head


def _grown(fd: int, position: Position) -> Chunk:
    back = min(TAIL_BYTES, position.offset)
    data, full = _read_lines(fd, position.offset - back, back)
    end = data.rfind(b"\n") + 1
    if end <= back:  # an incomplete line; one that is too long is passed over
        return (
            Chunk(b"", position) if not full else Chunk(b"", position_at(fd, position.offset - back + len(data)), True)
        )
    head, first = _head(fd), position.offset - back
    frames, last = [], position
    for start, stop in _lines(data, back, end):
        last = Position(first + stop, head, tail_checksum(data[max(0, stop - TAIL_BYTES) : stop]))
        frames.append(line_frames(data[start:stop], last))
    return Chunk(b"".join(frames), last, full)


def _read_lines(fd: int, start: int, back: int) -> tuple[bytes, bool]:
    """Some bytes with at least one whole line after the first `back` ones, if there is one that is not too long; and
    whether there may be more."""
    size = CHUNK_BYTES
    while True:
        data = pread(fd, back + size, start)
        full = len(data) == back + size
        if not full or data.find(b"\n", back) >= 0 or size >= LONGEST_LINE:
            return data, full
        size = min(LONGEST_LINE, size * 4)


def _lines(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = data.index(b"\n", start) + 1
        yield start, stop
        start = stop


def _restarted(fd: int, position: Position) -> Chunk:
    """A reset, and where to continue: everything that is still true was read before that."""
    size = os.fstat(fd).st_size
    if position.head is not None and _head(fd) == position.head:
        resumed = _first_resume(fd, min(size, position.offset))
        if resumed is not None:  # the line itself is sent as a reset
            return Chunk(b"", position_at(fd, resumed), True)
        if size < position.offset:  # cut, before the resumed run has written its first line
            return _cut(fd, size)
    return Chunk(frame("reset", {"step": EVERYTHING}, 0), Position(0), size > 0)


def _first_resume(fd: int, end: int) -> int | None:
    """The offset of the first line, before `end`, that says that the run was resumed."""
    at = 0
    while at < end:
        data = pread(fd, SCAN_BYTES, at)
        stop = data.rfind(b"\n") + 1
        if not stop:
            return None
        found = data.find(b'"resumed_from"', 0, stop)
        while found >= 0:
            start = data.rfind(b"\n", 0, found) + 1
            line_end = data.find(b"\n", found) + 1
            event = parse_event(data[start:line_end]) or {}
            if at + start >= end:
                return None
            if event.get("kind") == "start" and event.get("resumed_from") is not None:
                return at + start
            found = data.find(b'"resumed_from"', line_end, stop)
        at += stop
    return None


def _cut(fd: int, size: int) -> Chunk:
    end = _last_line_end(fd, size)
    start = _last_line_end(fd, end - 1) if end else 0
    event = parse_event(pread(fd, min(end - start, LONGEST_LINE), start)) if end else None
    position = position_at(fd, end)
    return Chunk(frame("reset", {"step": event["step"] if event else EVERYTHING}, position), position, end < size)


def _last_line_end(fd: int, size: int) -> int:
    """The offset after the last newline among the first `size` bytes."""
    while size > 0:
        start = max(0, size - CHUNK_BYTES)
        found = pread(fd, size - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        size = start
    return 0


def position_at(fd: int, offset: int) -> Position:
    """The position of an offset at which a line ends."""
    return Position(offset, _head(fd), tail_checksum(_before(fd, offset))) if offset else Position(0)


def _before(fd: int, offset: int) -> bytes:
    return pread(fd, min(TAIL_BYTES, offset), max(0, offset - TAIL_BYTES))


def _head(fd: int) -> int:
    return head_checksum(pread(fd, HEAD_BYTES, 0))
