"""Tables that every env, worker and trial on the machine shares: one copy, as read-only memory maps of files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from rookery import forks
from rookery.files import open_plain, wait_for_lock
from rookery.user_dirs import cache_folder, read_own, write_own

MOST_BYTES = 8 << 30  # of all tables in the cache; those that were used longest ago are removed first
PREFIX = "tables-"
INDEX = "index.json"
CHUNK = 1 << 24
ABANDONED_SECONDS = 86_400
Build = Callable[[], Mapping[str, np.ndarray]]
_open: dict[Path, dict[str, np.ndarray]] = {}  # what this process has mapped and verified
_unshared: list[bool] = []  # nothing is shared while it is not empty


def shared(key: str, build: Build) -> dict[str, np.ndarray]:
    """The arrays that `build` returns, as read-only memory maps of files in the user's cache folder.

    `build` is called once per machine and key; a damaged file is built again. Without a safe cache folder, or without
    space on its disk, the arrays are this process's own.

    Args:
        key: Everything that the arrays depend on, such as the hash of the data and the names of the columns.
    """
    folder = None if _unshared else cache_folder("tables")
    if folder is None:
        return _in_memory(build())
    place = folder / f"{PREFIX}{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    if place not in _open:
        with _locked(place.with_suffix(".lock")):
            arrays = _read(place)
            if arrays is None:
                return _build(place, build)
        _open[place] = arrays
    _mark_used(place)
    return dict(_open[place])


@contextmanager
def unshared() -> Iterator[None]:
    """Tables that are made within are this process's own: for bars that grow, whose tables nobody needs again."""
    _unshared.append(True)
    try:
        yield
    finally:
        _unshared.pop()


def forget() -> None:
    """Let go of the maps that this process keeps: the next call of `shared` reads and verifies the files again."""
    _open.clear()


def _build(place: Path, build: Build) -> dict[str, np.ndarray]:
    made = _in_memory(build())
    try:
        _write(place, made)
    except OSError:  # the disk is full, or the folder cannot be written
        return made
    arrays = _read(place)
    _prune(place.parent, keep=place)
    if arrays is None:
        return made
    _open[place] = arrays
    return dict(arrays)


def _in_memory(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Read-only, as the maps are, so that code that writes to them fails everywhere."""
    made = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    for name, array in made.items():
        made[name] = array.view()
        made[name].flags.writeable = False
    return made


def _write(place: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write beside and rename, so that other processes never see an incomplete folder."""
    beside = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{PREFIX}"))
    try:
        files = {}
        for number, (name, array) in enumerate(arrays.items()):
            file = f"{number}.npy"
            np.save(beside / file, array, allow_pickle=False)
            files[name] = {"file": file, "crc32": _checksum(beside / file)}
        write_own(beside / INDEX, json.dumps(files).encode())
        shutil.rmtree(place, ignore_errors=True)  # damaged; a process that has mapped its files keeps them
        beside.rename(place)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _read(place: Path) -> dict[str, np.ndarray] | None:
    """The arrays; None if there are none, or if they are damaged."""
    try:
        files = json.loads(read_own(place / INDEX))
        if any(_checksum(place / facts["file"]) != facts["crc32"] for facts in files.values()):
            return None
        return {
            name: np.load(place / facts["file"], mmap_mode="r", allow_pickle=False) for name, facts in files.items()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _checksum(path: Path) -> int:
    checksum = 0
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        while chunk := file.read(CHUNK):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """A lock between processes: others wait until the tables are built. Where files cannot be locked, everyone builds;
    the results are equal. The kernel releases the lock of a process that died."""
    fd = -1
    with suppress(OSError):
        fd = open_plain(path, os.O_RDWR | os.O_CREAT)
        forks.keep_from_children(fd)
        wait_for_lock(fd)
    try:
        yield
    finally:
        forks.close_kept(fd)


def _mark_used(place: Path) -> None:
    with suppress(OSError):
        os.utime(place)


def _prune(folder: Path, keep: Path) -> None:
    """Remove the tables that were used longest ago, until the rest is small enough, and what killed processes left."""
    with suppress(OSError):
        for beside in folder.glob(f".{PREFIX}*"):
            if beside.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                shutil.rmtree(beside, ignore_errors=True)
        places = [place for place in folder.glob(f"{PREFIX}*") if place.is_dir() and not place.is_symlink()]
        left = sum(map(_size, places))
        for place in sorted(places, key=lambda place: place.stat().st_mtime):
            if left <= MOST_BYTES:
                return
            if place != keep:
                left -= _size(place)
                shutil.rmtree(place, ignore_errors=True)
                place.with_suffix(".lock").unlink(missing_ok=True)


def _size(place: Path) -> int:
    return sum(file.stat().st_size for file in place.iterdir())
