"""Notices that the folder of a run was deleted, renamed or replaced while the run uses it.

Files that are open take what is written to them all the same, and a path alone would be made again, so that nobody
would notice before the run ends.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from rookery import forks
from rookery.console import printable
from rookery.file_locks import open_folder

GONE = {errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.ENODEV, errno.ENXIO}
# A write that fails with one of these fails again. A full disk is not among them: there the run goes on.
UNWRITABLE = GONE | {errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO}
DELETED = " (deleted)"  # as Linux ends the name of such a folder


class FolderWatch:
    """Knows a folder again. It stays open until `close()`: the system gives its number to no other one meanwhile."""

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
            forks.close(self._fd)
