"""The user's folders for caches, and for state such as what this user trusts.

Files in them are executed or trusted, so only this user may be able to write to them: folders and files must belong to
the user, and no one else may have write permission. Folders shared by all users, such as /tmp, are never used.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from rookery.console import printable, say
from rookery.errors import FileError
from rookery.files import open_plain

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(kind: str) -> Path | None:
    """`$ROOKERY_CACHE`, or rookery/KIND in the user's cache folder; None if no such folder is safe."""
    return _private(os.environ.get("ROOKERY_CACHE"), "XDG_CACHE_HOME", ".cache", kind)


def state_folder(kind: str) -> Path | None:
    """`$ROOKERY_STATE`, or rookery/KIND in the user's state folder; None if no such folder is safe."""
    return _private(os.environ.get("ROOKERY_STATE"), "XDG_STATE_HOME", ".local/state", kind)


def read_own(path: Path) -> bytes:
    """The contents of a file; an OSError if it does not exist, or if other users can write to it."""
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        if not _is_ours(os.fstat(file.fileno())):
            raise FileError(
                f"{printable(path)} belongs to another user, or others can write to it: it is not read (chmod go-w)"
            )
        return file.read()


def write_own(path: Path, data: bytes) -> None:
    """Write a file atomically: another process never sees an incomplete file."""
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def _private(named: str | None, variable: str, usual: str, kind: str) -> Path | None:
    try:
        base = os.environ.get(variable) or Path.home() / usual
    except RuntimeError:  # there is no home folder, as in some containers
        base = None
    path = Path(named) if named else base and Path(base) / "rookery" / kind
    if path is None or (not path.is_absolute() and not named):
        return None
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_ours = _is_ours(path.lstat()) and not path.is_symlink()
    except OSError:
        return None
    return path if is_ours else _passed_over(path)


def _is_ours(facts: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):  # Windows: a user's home is closed to others, and modes say nothing
        return True
    return facts.st_uid == os.geteuid() and not facts.st_mode & OTHERS_WRITE


@cache
def _passed_over(path: Path) -> None:
    """Report the folder once."""
    say(f"{path} is not used: it should be your own folder that nobody else can write to (chmod go-w)")
