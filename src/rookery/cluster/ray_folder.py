"""The temporary folder of a cluster that is started here, and those that killed runs have left."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rookery import forks
from rookery.files import open_plain, try_lock

PREFIX = "rookery-ray-"
ATTEMPTS, PAUSE_SECONDS = 10, 0.2
OWNER = "owner.lock"  # locked by the process that started the cluster, as long as it lives


@contextmanager
def ray_folder() -> Iterator[Path]:
    """A folder for Ray's files, removed in the end. Removes those of processes that were killed before they could."""
    parent = Path(tempfile.gettempdir())
    remove_left_folders(parent)
    made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=parent))
    owner = open_plain(made / OWNER, os.O_RDWR | os.O_CREAT)
    forks.keep_from_children(owner)
    try:
        with suppress(OSError):  # where files cannot be locked, others cannot lock it either, and leave it alone
            try_lock(owner)
        folder = made.rename(parent / made.name.removeprefix("."))  # only now do others see it
        try:
            yield folder
        finally:
            with suppress(OSError):
                _remove(folder)
    finally:
        forks.close_kept(owner)


def remove_left_folders(parent: Path) -> None:
    """Those that this user's processes have made and no process holds."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if _is_mine(folder) and not _is_held(folder):
                _remove(folder)


def _remove(folder: Path) -> None:
    """Remove it. Ray's processes may still write there while they end: what then stays is left to the next run, which
    knows by the lock's file that it may remove it."""
    for attempt in range(ATTEMPTS):
        time.sleep(PAUSE_SECONDS * bool(attempt))
        for path in folder.iterdir():
            if path.name != OWNER:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() and not path.is_symlink() else path.unlink()
        if [path.name for path in folder.iterdir()] == [OWNER]:
            (folder / OWNER).unlink()
            try:
                return folder.rmdir()
            except OSError:
                (folder / OWNER).touch()
    return None


def _is_mine(folder: Path) -> bool:
    return not hasattr(os, "getuid") or folder.stat(follow_symlinks=False).st_uid == os.getuid()


def _is_held(folder: Path) -> bool:
    """Whether the process that made it lives, as far as can be known."""
    try:
        owner = open_plain(folder / OWNER, os.O_RDWR)
    except OSError:
        return True
    try:
        try_lock(owner)
    except OSError:
        return True
    finally:
        os.close(owner)
    return False
