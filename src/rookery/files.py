"""Files that are written and read without trusting what lies in their place already.

A folder that came from somebody else may hold links that lead out of it, pipes that never answer, and files without an
end. What is written here never goes through a link; what is read is a plain file of a known size.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rookery.console import printable
from rookery.errors import FileError

SAFE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe would be waited for otherwise


def replace_file(path: Path, parts: Iterable[bytes]) -> None:
    """Write `parts` to `path`. Whoever reads it, at any time and after any crash, finds all of it or what was there. A
    link in its place is replaced; where it leads to stays as it is."""
    with beside(path) as unfinished, named(path), os.fdopen(open_plain(unfinished, os.O_WRONLY), "wb") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A new and empty file to write to, which becomes `path` in the end or is removed."""
    unfinished = path.with_name(f".{path.name}.new")
    for place in (path, unfinished):
        if place.is_dir() and not place.is_symlink():
            raise FileError(f"{printable(place)} is a folder where a file should be: remove it")
    with suppress(FileNotFoundError):
        unfinished.unlink()  # left by a process that was killed, or a link
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY | SAFE, 0o666))
    try:
        yield unfinished
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def open_to_append(path: Path) -> int:
    """A descriptor of a file that grows, new or there already. A second name of the file, which might be anything, is
    left to what was there until now."""
    fd = open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    if os.fstat(fd).st_nlink == 1:
        return fd
    with os.fdopen(fd, "rb") as file:
        replace_file(path, iter(lambda: file.read(1 << 20), b""))
    return open_plain(path, os.O_RDWR | os.O_APPEND)


def open_plain(path: Path, flags: int) -> int:
    """A descriptor of a plain file; a link, a pipe, a folder or a device is refused."""
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
    """What a plain file holds, if it is no larger than `most` bytes. A link to one will do: it is only read."""
    with os.fdopen(open_plain(Path(os.path.realpath(path)), os.O_RDONLY), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise FileError(f"{printable(path)} is larger than {most >> 20} MiB, and should not be")
    return data


def own_folder(path: Path) -> Path:
    """A folder of ours in another, made if it is not there; one that is a link is refused."""
    path.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        raise FileError(f"{printable(path)} is a link that leads elsewhere: nothing is written there; remove it")
    return path


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Have errors of the disk tell the file's name: that it is full is found by a write, which knows none."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def sync_folder(folder: Path) -> None:
    """Have the names in `folder` survive a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _refused(path: Path) -> FileError:
    kind = "a link that leads elsewhere" if path.is_symlink() else "no plain file"
    return FileError(f"{printable(path)} is {kind}: it is neither read nor written; remove it")
