"""Reads and writes files without trusting the folder they are in.

A folder from somebody else may hold links that lead out of it, pipes that block, and endless files. These functions
never write through a link, and read only regular files of limited size.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import threading
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.errors import FileError, OptionError

HAS_NO_FOLLOW = hasattr(os, "O_NOFOLLOW")  # not on Windows, where making a link needs a right of its own
# Non-blocking: opening a pipe would block otherwise. Binary: Windows would change the ends of lines.
SAFE = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY", "O_NOINHERIT"))
_SEEKING = threading.Lock()


def replace_file(path: Path, parts: Iterable[bytes]) -> None:
    """Write `parts` to `path` atomically: at any time, and after any crash, the file has either the old or the new
    contents. A link is replaced; its target stays unchanged."""
    with beside(path) as unfinished, named(path), os.fdopen(open_plain(unfinished, os.O_WRONLY), "wb") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A new, empty file that is renamed to `path` at the end, or removed after an error."""
    unfinished = path.with_name(f".{path.name}.new")
    for place in (path, unfinished):
        if place.is_dir() and not place.is_symlink():
            raise FileError(f"{printable(place)} is a folder where a file should be: remove it")
    with suppress(FileNotFoundError):
        unfinished.unlink()  # left by a process that was killed, or a link
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY | SAFE, 0o666))
    except OSError as error:
        error.filename = str(path)  # the name that the user knows
        raise
    try:
        yield unfinished
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def open_to_append(path: Path) -> int:
    """A descriptor for appending to a file, created if needed. A file with a second hard link is copied first, so that
    the other name keeps the old contents."""
    fd = open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    if os.fstat(fd).st_nlink == 1:
        return fd
    with os.fdopen(fd, "rb") as file:
        replace_file(path, iter(lambda: file.read(1 << 20), b""))
    return open_plain(path, os.O_RDWR | os.O_APPEND)


def open_plain(path: Path, flags: int) -> int:
    """A descriptor of a regular file; a link, a pipe, a folder or a device is rejected."""
    if not HAS_NO_FOLLOW and path.is_symlink():
        raise _refused(path)
    try:
        fd = os.open(path, flags | SAFE, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _refused(path) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _refused(path)
    return fd


def read_plain(path: Path, most: int) -> bytes:
    """The contents of a regular file of at most `most` bytes. A link to one is followed, as it is only read."""
    with os.fdopen(open_plain(Path(os.path.realpath(path)), os.O_RDONLY), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise FileError(f"{printable(path)} is larger than {most >> 20} MiB, the most that is read")
    return data


def pread(fd: int, size: int, offset: int) -> bytes:
    """As `os.pread`, also on Windows, which has none: there the place in the file is moved, by one thread at a time."""
    if hasattr(os, "pread"):
        return os.pread(fd, size, offset)
    with _SEEKING:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, size)


def own_folder(path: Path, parents: bool = True) -> Path:
    """A subfolder, created if needed; one that is a link is rejected. Without `parents`, the folder that it is in must
    exist: one that was deleted or renamed is not made again."""
    path.mkdir(parents=parents, exist_ok=True)
    if path.is_symlink():
        raise FileError(f"{printable(path)} is a link that leads elsewhere: nothing is written there; remove it")
    return path


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Add the file's name to errors of the disk: a failed write, as on a full disk, does not name the file."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def sync_folder(folder: Path) -> None:
    """Flush the names in `folder` to disk, so that they survive a power failure."""
    fd = open_folder(folder.resolve())
    if fd is None:  # Windows does that by itself
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _refused(path: Path) -> FileError:
    kind = "a link that leads elsewhere" if path.is_symlink() else "not a regular file"
    return FileError(f"{printable(path)} is {kind}: it is neither read nor written; remove it")


# --- locks between processes, on open files: the system releases the lock of a process that died ----------------------
# Linux and macOS lock a whole file (flock). Windows locks a byte, which nobody else can read then: so it is one far
# behind the end of the file.


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


# --- untrusted TOML ---------------------------------------------------------------------------------------------------
# `tomllib` takes minutes for a key with 100,000 dots, each of which is a nested table, and for thousands of keys with
# hundreds of them.

MOST_DOTS = 300  # in a line, with those of its numbers and texts
DEEPEST = 40  # tables that one key may name
PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
DEEP_KEY = re.compile(rf"(?:^|[{{,])[ \t]*\[{{0,2}}[ \t]*(?:{PART}[ \t]*\.[ \t]*){{{DEEPEST}}}", re.MULTILINE)


def load_toml(text: str) -> dict[str, Any]:
    """Like `tomllib.loads`, but a line with too many dots, or too deep nesting, is a TOMLDecodeError as well."""
    crowded = next((line for line in text.splitlines() if line.count(".") > MOST_DOTS), None)
    if crowded is not None:
        raise tomllib.TOMLDecodeError(f"a line has more than {MOST_DOTS} dots: {crowded[:40]!r}...")
    if DEEP_KEY.search(text):
        raise tomllib.TOMLDecodeError(f"a key names more than {DEEPEST} tables within each other")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from None


def check_file(name: str | Path) -> None:
    """Refuse at once a file that could not be written at the end. Missing folders are created later."""
    path = Path(name).absolute()
    folder = next(parent for parent in path.parents if parent.exists())
    if path.is_dir():
        raise OptionError(f"{name} is a folder: name a file")
    if not folder.is_dir():
        raise OptionError(f"{name} cannot be written: {folder} is a file")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise OptionError(f"{name} cannot be written: there is no permission to write to {folder}")
