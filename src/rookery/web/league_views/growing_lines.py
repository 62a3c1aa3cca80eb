"""The lines of a file of JSON objects that somebody appends to: each look reads what is new."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.files import open_plain, pread

LONGEST_LINE = 4 << 20  # bytes; a longer one is omitted
MOST_BYTES = 64 << 20  # of a file; what follows is not read
HEAD_BYTES = 256  # by which a file is known
Line = dict[str, Any]


class GrowingLines:
    """Remembers how far a file was read. A file that was replaced or cut is read from its beginning."""

    def __init__(self) -> None:
        self._known: tuple[int, bytes] = (0, b"")  # the file's number on its disk, and how it begins
        self._offset = 0

    def read(self, path: Path | None) -> tuple[bool, list[Line]]:
        """Whether what was read before is void, and the new lines. There are none in a file that cannot be read."""
        try:
            if path is None:
                raise FileNotFoundError
            with os.fdopen(open_plain(path, os.O_RDONLY), "rb", buffering=0) as file:
                return self._read(file.fileno())
        except OSError:
            was_read, self._known, self._offset = self._offset > 0, (0, b""), 0
            return was_read, []

    def _read(self, fd: int) -> tuple[bool, list[Line]]:
        facts, head = os.fstat(fd), pread(fd, HEAD_BYTES, 0)
        number, known = self._known
        is_same = facts.st_ino == number and head.startswith(known) and facts.st_size >= self._offset
        is_void = not is_same and self._offset > 0
        if not is_same:
            self._offset = 0
        self._known = facts.st_ino, head
        room = min(facts.st_size, MOST_BYTES) - self._offset
        data = pread(fd, room, self._offset) if room > 0 else b""
        data = data[: data.rfind(b"\n") + 1]  # without a line that is being written
        self._offset += len(data)
        return is_void, list(_objects(data))


def _objects(data: bytes) -> Iterator[Line]:
    """The objects of the lines; other lines are skipped."""
    for line in data.split(b"\n"):
        found = parse_line(line)
        if found is not None:
            yield found


def parse_line(line: bytes) -> Line | None:
    """The object of a line, if it holds one."""
    try:
        found = json.loads(line) if 0 < len(line) <= LONGEST_LINE else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


LARGEST = 2**53  # a number beyond it is not exact in a browser
LONGEST_NAME = 200


def number_in(value: Any) -> float | None:
    """A finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < LARGEST:
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def count_in(value: Any) -> int | None:
    """An integer from 0, else None."""
    found = number_in(value)
    return int(found) if found is not None and found >= 0 and found == int(found) else None


def text_in(value: Any) -> str | None:
    """A text that can be shown, else None."""
    return printable(value)[:LONGEST_NAME] if isinstance(value, str) and value else None
