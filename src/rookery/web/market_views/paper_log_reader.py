"""Reads the log of a paper account while it grows: each line once, with its checksum."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import BinaryIO

import orjson

from rookery.deploy.paper.account_log import MARK, checksum
from rookery.files import open_plain
from rookery.web.market_views.paper_columns import PaperColumns

BLOCK = 1 << 20
MOST_AT_ONCE = 8 << 20  # bytes that one look reads: a longer log takes several
LONGEST_LINE = 4 << 20


class _Damaged(Exception):
    """A line is not what follows from those before it."""


class PaperLog:
    """A log that is looked at. `columns` is what it says; hold `lock` while you read them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.RLock()
        self.problem: str | None
        self._file: tuple[int, int]
        self._seen: tuple[int, int]
        self._offset: int
        self._lines: int
        self._forget()

    def refresh(self) -> None:
        """Read what was added. A log that was replaced or shortened is read from its beginning."""
        with self.lock, os.fdopen(open_plain(self.path, os.O_RDONLY), "rb") as file:
            found = os.fstat(file.fileno())
            own = found.st_dev, found.st_ino
            if own != self._file or found.st_size < self._offset:
                self._forget(own)
            stamp = found.st_size, found.st_mtime_ns
            if self.problem is not None and stamp == self._seen:
                return
            continues, self._seen = self._offset > 0, stamp
            if not self._read(file, found.st_size) and continues:  # it may be another log of the same name
                self._forget(own)
                self._read(file, found.st_size)

    def _forget(self, file: tuple[int, int] = (0, 0)) -> None:
        self.columns = PaperColumns()
        self.problem, self.is_complete = None, False
        self._file, self._seen = file, (0, 0)
        self._offset = self._lines = 0
        self._sum = b""

    def _read(self, file: BinaryIO, size: int) -> bool:
        """Take in what there is, up to a limit; False if a line is damaged."""
        self.problem = None
        try:
            rest = self._take_lines(file)
        except _Damaged:
            self.problem = f"line {self._lines + 1} of the log is damaged or was changed: it ends there"
            self.is_complete = True
            return False
        self.is_complete = self._offset + rest >= size
        return True

    def _take_lines(self, file: BinaryIO) -> int:
        """Take in complete lines; returns how many bytes of the next one are there."""
        file.seek(self._offset)
        limit, rest = self._offset + MOST_AT_ONCE, b""
        while self._offset < limit and (block := file.read(BLOCK)):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                self._take(line)
            if len(rest) > LONGEST_LINE:
                raise _Damaged
        return len(rest)

    def _take(self, text: bytes) -> None:
        body, mark, end = text.rpartition(MARK)
        total = checksum(self._sum, body + b"}")
        if not mark or end != total + b'"}':
            raise _Damaged
        try:
            line = orjson.loads(body + b"}")
            if line["seq"] != self._lines:
                raise _Damaged
            self.columns.add(line)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
            raise _Damaged from error
        self._sum, self._lines, self._offset = total, self._lines + 1, self._offset + len(text) + 1
