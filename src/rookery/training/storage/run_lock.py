"""One process at a time in a run's folder."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from rookery import forks
from rookery.console import printable, say
from rookery.errors import RunBusy
from rookery.files import open_folder, open_plain, try_lock

# A flock belongs to the opened file, not to the process: the kernel drops it when the last descriptor closes, so a
# killed holder leaves nothing stale, and a second attempt by this very process is rejected as well. A POSIX record lock
# (lockf) would allow that one, and be lost whenever anything here opens and closes the same file, such as a copy of the
# folder. In return a forked worker shares the flock, and would hold it after our death: so it closes its copy at once,
# and a process that finds the holder dead waits for workers that have not closed theirs yet.
WAIT_SECONDS = 3.0
READER_SECONDS = 0.1  # `rookery runs` and the dashboard hold a lock for microseconds, to see whether it is free


class Lock:
    """Holds `path` from the moment it is made until `release()`, the end of a `with` block, or of the process."""

    def __init__(self, path: Path, strict: bool = False) -> None:
        """`strict` refuses a file system without locks; else the user is told to take care."""
        self.path = path
        self._fd = open_plain(path, os.O_RDWR | os.O_CREAT)
        forks.keep_from_children(self._fd)
        try:
            self._take(time.monotonic() + WAIT_SECONDS)
        except BlockingIOError:
            holder = self._describe()
            self.release()
            raise RunBusy(
                f"{printable(path.parent)} is in use by {holder}; wait for it, or start a run of another name"
            ) from None
        except OSError as error:
            if strict:
                self.release()
                raise
            say(f"{path.parent} cannot be locked ({error.strerror}): make sure that no second process uses it")
        self._write_holder()

    def release(self) -> None:
        """Release the lock. The file stays: removing it could remove that of the next holder."""
        forks.close_kept(self._fd)

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _take(self, deadline: float) -> None:
        readers = time.monotonic() + READER_SECONDS
        while True:
            try:
                return try_lock(self._fd)
            except BlockingIOError:
                now = time.monotonic()
                if now > deadline or (now > readers and not self._holder_is_dead()):
                    raise
            time.sleep(0.01)

    def _write_holder(self) -> None:
        """Write who holds the lock, for the error message of others; a full disk is ignored. A file with a second hard
        link is not written to: it may be any file."""
        if os.fstat(self._fd).st_nlink > 1:
            return
        about = {"pid": os.getpid(), "host": socket.gethostname(), "started": time.time()}
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
            os.write(self._fd, json.dumps(about).encode())

    def _read_holder(self) -> dict[str, Any]:
        """What the holder has written; {} if it cannot be read."""
        with suppress(OSError, ValueError, RecursionError, TypeError, KeyError):
            os.lseek(self._fd, 0, os.SEEK_SET)
            about = json.loads(os.read(self._fd, 4096))
            if type(about["pid"]) is int and 0 < about["pid"] < 2**31 and 0 <= about["started"] < 1e11:
                return about
        return {}

    def _holder_is_dead(self) -> bool:
        about = self._read_holder()
        if about.get("host") != socket.gethostname():
            return False
        import psutil  # here: a process that only reads runs needs none

        try:
            return psutil.Process(about["pid"]).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    def _describe(self) -> str:
        about = self._read_holder()
        if not about:
            return "another process"
        since = datetime.fromtimestamp(about["started"]).isoformat(" ", "seconds")
        return f"process {about['pid']} on {printable(about.get('host'))}, since {since}"


GONE = {errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.ENODEV, errno.ENXIO}
# A write that fails with one of these fails again. A full disk is not among them: there the run continues.
UNWRITABLE = GONE | {errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO}
DELETED = " (deleted)"  # as Linux ends the name of such a folder


class FolderWatch:
    """Knows a folder again. It stays open until `close()`: the system gives its number to no other one in the
    meantime."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))
        self._fd = open_folder(self.path.resolve())
        self._stat = os.stat(self.path)
        if self._fd is not None:
            forks.keep_from_children(self._fd)

    def why_lost(self) -> str:
        """What has happened to the folder; "" while it is where it was."""
        try:
            now = os.stat(self.path)
        except OSError as error:
            return f"{printable(self.path)} {self._fate()}" if error.errno in GONE else ""
        if os.path.samestat(now, self._stat):
            return ""
        return f"{printable(self.path)} {self._fate()}, and something else has its name"

    def _fate(self) -> str:
        place = ""
        with suppress(OSError):  # only Linux tells
            place = os.readlink(f"/proc/self/fd/{self._fd}")
        if not place or place.endswith(DELETED):
            return "was deleted"
        return f"was renamed to {printable(place)}" if place != str(self.path) else "is out of reach"

    def close(self) -> None:
        if self._fd is not None:
            forks.close_kept(self._fd)
