"""Files that only grow: every record goes out whole, in one system call."""

from __future__ import annotations

import errno
import os
from io import FileIO
from pathlib import Path

from rookery.files import named, open_to_append


def growing(path: Path) -> FileIO:
    """A file to append to. Without a buffer: what a failed write leaves in a buffer would fail once more at `close`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = FileIO(open_to_append(path), "a+")
    file.name = str(path)  # not the descriptor's number, as errors tell it
    return file


def append(file: FileIO, record: bytes) -> None:
    """Write `record`; a disk that took only a part of it is full."""
    with named(Path(file.name)):
        if file.write(record) != len(record):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
