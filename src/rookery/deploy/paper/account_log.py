"""The log of a paper account: JSON lines that are only ever appended.

Each line has a number and a checksum over itself and all lines before it. A line is on the disk before anything follows
from it. What a killed process has left of an unfinished line is removed at the next start: it never counted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.errors import FileError
from rookery.files import named, open_plain, sync_folder
from rookery.monitor.jsonl import append_record, open_append_only

MARK = b', "sum": "'
SUM_LETTERS = 16
Line = dict[str, Any]


class AccountLog:
    """The log of an account, opened to append to it. `lines` holds what it had when it was opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        is_new = not path.exists()
        self.lines, self._sum, length = ([], b"", 0) if is_new else _parsed(path)
        self._next = len(self.lines)
        self._file = open_append_only(path)
        if is_new:
            sync_folder(path.parent)
        if self._file.seek(0, os.SEEK_END) > length:
            self._file.truncate(length)
            os.fsync(self._file.fileno())

    def append(self, line: Line) -> None:
        """Write a line. It is on the disk when this returns."""
        body = json.dumps({"seq": self._next, **line}, allow_nan=False).encode()
        total = checksum(self._sum, body)
        with named(self.path):
            append_record(self._file, body[:-1] + MARK + total + b'"}\n')
            os.fsync(self._file.fileno())
        self._sum, self._next = total, self._next + 1

    def close(self) -> None:
        self._file.close()


def read_log(path: Path) -> list[Line]:
    """The lines of a log, checked. An unfinished last line does not count."""
    return _parsed(path)[0]


def checksum(before: bytes, body: bytes) -> bytes:
    """Of a line, by that of the line before it.

    >>> checksum(b"", b'{"seq": 0}')
    b'291c962cc476324e'
    """
    return hashlib.sha256(before + body).hexdigest()[:SUM_LETTERS].encode()


def _parsed(path: Path) -> tuple[list[Line], bytes, int]:
    """The lines, the last checksum, and the length of all complete lines in bytes."""
    lines: list[Line] = []
    total, length = b"", 0
    for text in _complete_lines(path):
        body, mark, end = text.rpartition(MARK)
        total, line = checksum(total, body + b"}"), _object(body + b"}")
        if not mark or end != total + b'"}\n' or line.get("seq") != len(lines):
            raise FileError(
                f"{printable(path)}: line {len(lines) + 1} is damaged or was changed: its checksum is wrong. Bring the "
                "file back from a copy, or begin a new account in another folder with --account"
            )
        lines.append(line)
        length += len(text)
    return lines, total, length


def _object(body: bytes) -> Line:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _complete_lines(path: Path) -> Iterator[bytes]:
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        for text in file:
            if text.endswith(b"\n"):
                yield text
