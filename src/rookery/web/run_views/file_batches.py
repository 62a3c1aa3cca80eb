"""Columns of many short files at once: compiled code reads them without the interpreter, while others use it.

Two threads that open, read and scan one file after the other take turns at every step: with them, the comparison of 250
runs of 1,000 lines took twice as long. This module must not import NumPy: the first files are read during that import.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from rookery.web.run_views.compiled_scan import compiled

CAN_READ = hasattr(compiled, "files")  # not on Windows


class ReadColumns(NamedTuple):
    """The first lines of a file, up to one that is not plain.

    Attributes:
        names: The metrics.
        inode: Of the file.
        offset: Where these lines end.
        tail: The last bytes of them.
        rows: The number of lines.
        counts: That of the values of each metric.
        columns: Steps, times, values of each metric (8 bytes each), their rows (4 bytes) and the kinds (1 byte).
    """

    names: tuple[str, ...]
    inode: int
    offset: int
    tail: bytes
    rows: int
    counts: tuple[int, ...]
    columns: bytes


class FileBatches:
    """What was read, until somebody takes it."""

    def __init__(self) -> None:
        self._read: dict[bytes, ReadColumns] = {}
        self.is_asked = False  # somebody waits for columns: then nothing is read ahead any more

    def read(self, paths: Sequence[bytes], names: Collection[str], most: int) -> int:
        """Read these metrics of the files of at most `most` bytes; returns how many bytes that were."""
        if not CAN_READ:
            return 0
        keys = tuple(json.dumps(name).encode() + b": " for name in names)
        found = compiled.files(tuple(paths), keys, most)
        read = {path: ReadColumns(tuple(names), *one) for path, one in zip(paths, found, strict=True) if one}
        self._read.update(read)
        return sum(one.offset for one in read.values())

    def has(self, metrics: Path) -> bool:
        """Whether a file was read, and not yet taken."""
        return os.fsencode(metrics) in self._read

    def take(self, metrics: Path) -> ReadColumns | None:
        """What was read of a file."""
        return self._read.pop(os.fsencode(metrics), None)
