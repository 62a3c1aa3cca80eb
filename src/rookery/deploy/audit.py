"""`audit.jsonl`: every change of a registry, one JSON object a line, never rewritten.

A change takes effect when `aliases.json` is replaced, and that file holds the change's own entry as well. The line is
appended after that. So whatever moment a process is killed in, the log lacks at most its last line, and that line is
still known: who changes the registry next completes the log first, and readers see the entry meanwhile.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.errors import RegistryError
from rookery.files import open_plain
from rookery.monitor.jsonl import append_record, open_append_only

Entry = dict[str, Any]
BLOCK = 1 << 16  # bytes


def plain_values(value: Any) -> Any:
    """A value as strict JSON can hold it: NaN and infinity become null, numbers of NumPy plain ones.

    >>> plain_values({"share": float("nan"), "interval": (0.5, 1)})
    {'share': None, 'interval': [0.5, 1]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain_values(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(part) for part in value]
    if hasattr(value, "tolist"):
        return plain_values(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class AuditLog:
    """The log of a registry. Only the holder of the registry's lock may append to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, last: Entry | None = None) -> list[Entry]:
        """All entries, the oldest first. `last` is the entry in `aliases.json`, which the log may lack."""
        entries = self._complete_lines()
        if last is not None and (not entries or entries[-1]["entry"] < last["entry"]):
            entries.append(last)
        return entries

    def append(self, entry: Entry) -> None:
        """Append an entry, and sync it to the disk."""
        with open_append_only(self.path) as file:
            append_record(file, json.dumps(entry).encode() + b"\n")
            os.fsync(file.fileno())

    def repair(self, last: Entry | None) -> None:
        """Remove a line that was written in part, and add the last entry if it is missing."""
        size, end, line = self._last_line()
        newest, known = self._parse(line)["entry"] if line else 0, last["entry"] if last else 0
        if newest > known:
            raise RegistryError(
                f"{printable(self.path)} knows {newest} changes, and aliases.json beside it {known}: it is missing or "
                "an older copy; restore the newest one"
            )
        if size > end:
            self._cut(end)
        if last is not None and newest < known:
            self.append(last)

    def _last_line(self) -> tuple[int, int, bytes]:
        """The size of the file, where its last complete line ends, and that line. Only the end of the file is read."""
        try:
            fd = open_plain(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return 0, 0, b""
        with os.fdopen(fd, "rb") as file:
            size, block = os.fstat(fd).st_size, BLOCK
            while True:
                start = max(0, size - block)
                file.seek(start)
                tail = file.read(size - start)
                end = tail.rfind(b"\n") + 1
                begin = tail.rfind(b"\n", 0, max(0, end - 1)) + 1
                if begin or not start:
                    return size, start + end, tail[begin:end]
                block *= 2

    def _cut(self, size: int) -> None:
        fd = open_plain(self.path, os.O_RDWR)
        try:
            os.ftruncate(fd, size)
            os.fsync(fd)
        finally:
            os.close(fd)

    def _complete_lines(self) -> list[Entry]:
        """The entries; the last line does not count if it was written in part."""
        try:
            with os.fdopen(open_plain(self.path, os.O_RDONLY), "rb") as file:
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        return [self._parse(line, number) for number, line in enumerate(lines, 1)]

    def _parse(self, line: bytes, number: int | None = None) -> Entry:
        try:
            entry = json.loads(line)
            if isinstance(entry, dict) and type(entry.get("entry")) is int:
                return entry
        except (ValueError, RecursionError):
            pass
        line_name = "its last line" if number is None else f"line {number}"
        raise RegistryError(f"{printable(self.path)} is damaged: {line_name} is no entry of the log")
