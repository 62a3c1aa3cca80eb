"""Columns of long metrics files in the user's cache folder: arrays that are appended to, one file per metric.

`columns.json` says how much of each file counts, and how much of the metrics they hold. What was appended after it was
written last does not count, and is overwritten.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from rookery.user_dirs import cache_folder, read_own, write_own
from rookery.web.run_views.line_samples import LineFile
from rookery.web.run_views.metric_chunk import Metric, MetricChunk

VERSION = 1
INDEX = "columns.json"
CHECKED = 4096  # bytes before the end of what was read, by which a replaced file is noticed
LARGEST_CACHE = 4 << 30
BASE = {"steps": np.float64, "times": np.float64, "kinds": np.uint8}


@dataclass
class CachedColumns:
    """How much of a metrics file is held."""

    inode: int
    offset: int = 0
    check: str = ""
    rows: int = 0
    cuts: list[tuple[int, float]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)  # the number of values of each metric, in the order of files
    version: int = VERSION


def folder_of(metrics: Path) -> Path | None:
    """The folder for the columns of a metrics file; None if the user has no safe cache folder."""
    base = cache_folder("columns")
    if base is None:
        return None
    name = hashlib.blake2b(os.fsencode(os.path.abspath(metrics)), digest_size=16).hexdigest()
    return base / "metric-columns" / name


def held(folder: Path | None, file: LineFile) -> CachedColumns | None:
    """What is held of this file; None if there is nothing, or if the file has been replaced since."""
    if folder is None:
        return None
    try:
        known = CachedColumns(**orjson.loads(read_own(folder / INDEX)))
    except (OSError, ValueError, TypeError):
        return None
    same = known.version == VERSION and known.inode == file.inode and known.offset <= file.size
    return known if same and known.check == check_of(file, known.offset) else None


def check_of(file: LineFile, offset: int) -> str:
    """A hash of the bytes before `offset`."""
    return check_of_end(file.read(max(0, offset - CHECKED), offset))


def check_of_end(end: bytes) -> str:
    """The same, of these `CHECKED` bytes."""
    return hashlib.blake2b(end, digest_size=16).hexdigest()


def load(folder: Path, known: CachedColumns, names: Iterable[str]) -> MetricChunk:
    """The columns with the metrics of these names; a missing file is an OSError or ValueError."""
    numbers = {name: number for number, name in enumerate(known.names)}
    base = {name: _read(folder / name, kind, known.rows) for name, kind in BASE.items()}
    metrics = {
        name: Metric(
            _read(folder / f"{numbers[name]}.rows", np.uint32, known.names[name]),
            _read(folder / f"{numbers[name]}.values", np.float64, known.names[name]),
        )
        for name in names
        if name in numbers
    }
    return MetricChunk(cuts=[(row, step) for row, step in known.cuts], metrics=metrics, **base)


class ColumnWriter:
    """Appends chunks to the columns in a folder."""

    def __init__(self, folder: Path, file: LineFile) -> None:
        self._folder, self._file = folder, file
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.known = held(folder, file) or CachedColumns(file.inode)

    def add(self, chunk: MetricChunk, offset: int) -> None:
        """Append events that end at `offset` of the metrics."""
        known = self.known
        for name in BASE:
            _append(self._folder / name, getattr(chunk, name), known.rows)
        for name, metric in chunk.metrics.items():
            count = known.names.setdefault(name, 0)
            number = list(known.names).index(name)
            _append(self._folder / f"{number}.rows", metric.rows + np.uint32(known.rows), count)
            _append(self._folder / f"{number}.values", metric.values, count)
            known.names[name] += len(metric.values)
        known.cuts += [(row + known.rows, step) for row, step in chunk.cuts]
        known.rows, known.offset = known.rows + len(chunk), offset

    def save(self) -> None:
        """Let what was appended count."""
        self.known.check = check_of(self._file, self.known.offset)
        write_own(self._folder / INDEX, orjson.dumps(asdict(self.known)))


def forget_oldest(base: Path, keep: Path, most: int = LARGEST_CACHE) -> None:
    """Remove the columns that were written longest ago, until the cache is small enough."""
    folders = [(_age(path), path) for path in base.iterdir()]
    sizes = {path: _size(path) for _, path in folders}
    for _, path in sorted(folders):
        if sum(sizes.values()) <= most:
            return
        if path != keep:
            shutil.rmtree(path, ignore_errors=True)
            del sizes[path]


def _read(path: Path, kind: Any, count: int) -> np.ndarray:
    """The first values of a file, of which only those that are used are read."""
    if count == 0:
        return np.empty(0, kind)
    return np.asarray(np.memmap(path, kind, "r", shape=count))  # a ValueError if the file is too short


def _append(path: Path, values: np.ndarray, at: int) -> None:
    with open(path, "r+b" if path.exists() else "w+b") as file:
        file.seek(at * values.itemsize)
        file.write(np.ascontiguousarray(values).data)


def _age(path: Path) -> float:
    with suppress(OSError):
        return (path / INDEX).stat().st_mtime
    return 0.0


def _size(folder: Path) -> int:
    with suppress(OSError):
        return sum(entry.stat().st_size for entry in os.scandir(folder))
    return 0
