"""Files that only grow: every record goes out whole, in one system call."""

from __future__ import annotations

import errno
import os
from io import FileIO
from pathlib import Path


def open_to_append(path: Path) -> FileIO:
    """Without a buffer: what a failed write leaves in a buffer would fail once more at `close`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileIO(path, "a+")


def append(file: FileIO, record: bytes) -> None:
    """Write `record`; a disk that took only a part of it is full."""
    if file.write(record) != len(record):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file.name))
