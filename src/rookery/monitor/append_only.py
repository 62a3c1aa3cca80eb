"""Files to which records are appended: each record is written completely, in one system call."""

from __future__ import annotations

import errno
import os
from io import FileIO
from pathlib import Path

from rookery.files import named, open_to_append


def open_append_only(path: Path, parents: bool = True) -> FileIO:
    """Open a file to append to. It has no buffer: after a failed write, a buffer would fail again at `close`. Without
    `parents`, its folder must exist."""
    if parents:
        path.parent.mkdir(parents=True, exist_ok=True)
    file = FileIO(open_to_append(path), "a+")
    file.name = str(path)  # the path instead of the descriptor, for error messages
    return file


def append_record(file: FileIO, record: bytes) -> None:
    """Write `record`; if only a part of it was written, the disk is full."""
    with named(Path(file.name)):
        if file.write(record) != len(record):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
