"""One process at a time writes to a folder of bars."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rookery.console import printable, say
from rookery.errors import DataError
from rookery.files import open_folder, open_plain, try_lock

WAIT_SECONDS = 60.0
PAUSE_SECONDS = 0.05


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Wait until no other process holds the folder, and hold it within. The folder itself is locked, so that no file is
    left behind (on Windows, a file in it); the lock ends with the process."""
    own = open_folder(folder.resolve())
    fd = open_plain(folder / ".lock", os.O_RDWR | os.O_CREAT) if own is None else own
    try:
        _take(fd, folder, time.monotonic() + WAIT_SECONDS)
        yield
    finally:
        os.close(fd)


def _take(fd: int, folder: Path, deadline: float) -> None:
    waiting = False
    while True:
        try:
            return try_lock(fd)
        except BlockingIOError:
            pass
        except OSError as error:  # some network file systems
            return say(f"{folder} cannot be locked ({error.strerror}): make sure that no second process writes to it")
        if time.monotonic() > deadline:
            raise DataError(f"{printable(folder)}: another process is writing bars there: try again when it has ended")
        if not waiting:
            say(f"{folder}: waiting for another process that is writing bars there")
        waiting = True
        time.sleep(PAUSE_SECONDS)
