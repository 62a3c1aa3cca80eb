"""Locks between processes, on open files. The system releases the lock of a process that died.

Linux and macOS lock a whole file (flock). Windows locks a byte, which nobody else can read then: so it is one far
behind the end of the file.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCKED_BYTE = 1 << 30
PAUSE_SECONDS = 0.01
NO_LOCKS = OSError(errno.ENOTSUP, "this system has no locks for files")


def try_lock(fd: int, shared: bool = False) -> None:
    """Lock an open file, until it is closed. Raises BlockingIOError if another holds it, and OSError where files cannot
    be locked. Windows has no shared locks: there it is exclusive."""
    if fcntl is not None:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    elif sys.platform == "win32":
        _lock_byte(fd)
    else:
        raise NO_LOCKS


def wait_for_lock(fd: int) -> None:
    """Lock an open file as soon as no other process holds it."""
    if fcntl is not None:
        fcntl.flock(fd, fcntl.LOCK_EX)
        return None
    while True:
        try:
            return try_lock(fd)
        except BlockingIOError:
            time.sleep(PAUSE_SECONDS)


def open_folder(folder: Path) -> int | None:
    """A descriptor of a folder, to lock it or to flush the names in it; None on Windows, where folders have none."""
    if not hasattr(os, "O_DIRECTORY"):
        return None
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _lock_byte(fd: int) -> None:
    import msvcrt

    position = os.lseek(fd, 0, os.SEEK_CUR)
    os.lseek(fd, LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EDEADLK):
            raise BlockingIOError(errno.EAGAIN, "locked by another process") from None
        raise
    finally:
        os.lseek(fd, position, os.SEEK_SET)
