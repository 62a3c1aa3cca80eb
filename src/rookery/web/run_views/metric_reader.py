"""The metrics of runs as curves: exact where that is quick, and until it is, from samples of the lines."""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rookery.web.run_views import column_cache
from rookery.web.run_views.chunk_curves import ChunkCurves
from rookery.web.run_views.chunk_range import between, ends_of
from rookery.web.run_views.column_jobs import ColumnJobs
from rookery.web.run_views.few_metrics import MOST_KEYS, chunk_of_read, few_metrics
from rookery.web.run_views.file_batches import FileBatches
from rookery.web.run_views.line_chunks import read_lines
from rookery.web.run_views.line_samples import WINDOW, LineFile
from rookery.web.run_views.metric_chunk import MetricChunk, chunk_of, joined, metric_names
from rookery.web.run_views.name_counts import NameCounts

FEW = 4  # metrics of a small file that are read without the others
SMALL = 12 << 20  # bytes of lines that are read while somebody waits
MEMORY = 48 << 20  # bytes of columns that are kept
NAME_SAMPLES, LEAST_SAMPLES = 200, 400
THREADS = 2  # that read many files


@dataclass
class _Kept:
    """The columns of a small file, and how much of it they hold; `names` are the metrics, None all of them."""

    inode: int
    check: str
    offset: int
    chunk: MetricChunk
    names: frozenset[str] | None


@dataclass(frozen=True)
class FoundCurves:
    """Curves, whether they are exact, and if they are of a part of the run, where the whole begins and ends."""

    curves: ChunkCurves
    exact: bool
    ends: tuple[float, float] | None = None


class MetricReader:
    """Reads metrics files. Every method reads files: call it in a thread."""

    def __init__(self, batches: FileBatches | None = None) -> None:
        """`batches` may hold files that were read already."""
        self._batches = batches or FileBatches()
        self._kept: OrderedDict[Path, _Kept] = OrderedDict()
        self._bytes = 0  # of what is kept
        self._lock = threading.Lock()
        self._jobs = ColumnJobs()
        self._counts = NameCounts()

    def close(self) -> None:
        self._batches.is_asked = True
        self._jobs.close()

    def prepare(self, files: Sequence[Path], names: Collection[str]) -> None:
        """Read these metrics of the small files among many, which is faster together than one by one."""
        self._batches.is_asked = True
        new = [os.fsencode(path) for path in files if path not in self._kept and not self._batches.has(path)]
        if len(new) > 1 and len(names) <= FEW:
            with ThreadPoolExecutor(THREADS) as threads:
                list(threads.map(lambda part: self._batches.read(new[part::THREADS], names, SMALL), range(THREADS)))

    def names(self, metrics: Path) -> tuple[dict[str, int], bool]:
        """The names of metrics with the number of their values, and whether these numbers are exact."""
        with LineFile(metrics) as file:
            if file.size <= SMALL:
                return self._counts.of(metrics, file), True
            folder = column_cache.folder_of(metrics)
            known = column_cache.held(folder, file)
            if known is not None and file.size - known.offset <= SMALL:
                return self._held_names(known, file), True
            self._ask(metrics, folder)
            return _estimated_names(file), False

    def curves(
        self, metrics: Path, names: Sequence[str], axis: str = "steps", low: float | None = None,
        high: float | None = None, points: int = 1500,
    ) -> FoundCurves:  # fmt: skip
        """Curves of these metrics at least from `low` to `high`."""
        with LineFile(metrics) as file:
            chunk = self._exact(metrics, file, needed_names(names, axis))
            if chunk is not None and axis == "steps" and not chunk.cuts:
                asked = _named(chunk, names)
                return FoundCurves(ChunkCurves(between(asked, low, high)), True, ends_of(asked))
            if chunk is not None:
                return FoundCurves(ChunkCurves(chunk, axis), True)
            first, last = _byte_range(file, axis, low, high)
            if last - first <= SMALL and axis == "steps":
                part = ChunkCurves(read_lines(file, first, last)[0], axis, in_order=True)
                return FoundCurves(part, True, _ends(file))
            keys = [json.dumps(name).encode() for name in names]
            lines = b"".join(line + b"\n" for line in file.samples(max(points, LEAST_SAMPLES), keys, first, last))
            needed = needed_names(names, axis)
            chunk = few_metrics(lines, needed) if len(needed) <= MOST_KEYS else chunk_of(lines)
            sample = ChunkCurves(chunk, axis, in_order=True)
            return FoundCurves(sample, False, _ends(file) if axis == "steps" else None)

    def _exact(self, metrics: Path, file: LineFile, names: set[str]) -> MetricChunk | None:
        if file.size <= SMALL:
            return self._small(metrics, file, frozenset(names) if len(names) <= FEW else None)
        folder = column_cache.folder_of(metrics)
        known = column_cache.held(folder, file)
        if known is None or folder is None or file.size - known.offset > SMALL:
            self._ask(metrics, folder)
            return None
        if file.size - known.offset > SMALL // 4:
            self._ask(metrics, folder)  # the run has grown: the next one who asks should wait less
        try:
            parts = [column_cache.load(folder, known, names), read_lines(file, known.offset, file.size)[0]]
            return joined([part for part in parts if len(part)] or parts[:1])
        except (OSError, ValueError):  # the cache was emptied at this moment
            return None

    def _small(self, metrics: Path, file: LineFile, names: frozenset[str] | None = None) -> MetricChunk:
        """At least the columns of these names, None is all, of a small file; of one that has grown, only the new lines
        are read."""
        with self._lock:
            kept = self._kept.get(metrics)
        if kept is None and (read := self._batches.take(metrics)):
            kept = _Kept(
                read.inode,
                column_cache.check_of_end(read.tail),
                read.offset,
                chunk_of_read(read),
                frozenset(read.names),
            )
        if kept and not (self._still_true(kept, file) and _holds(kept, names)):
            kept = None
        if kept is None or kept.offset < file.size:
            kept = _grown(kept, file, names)
        self._keep(metrics, kept)
        return kept.chunk

    def _keep(self, metrics: Path, kept: _Kept) -> None:
        """In place of what another thread may have kept meanwhile. What was not used for longest is forgotten."""
        with self._lock:
            self._forget(metrics)
            self._kept[metrics] = kept
            self._bytes += kept.chunk.nbytes
            while len(self._kept) > 1 and self._bytes > MEMORY:
                self._forget(next(iter(self._kept)))

    def _forget(self, metrics: Path) -> _Kept | None:
        kept = self._kept.pop(metrics, None)
        self._bytes -= kept.chunk.nbytes if kept else 0
        return kept

    @staticmethod
    def _still_true(kept: _Kept, file: LineFile) -> bool:
        same = kept.inode == file.inode and kept.offset <= file.size
        return same and kept.check == column_cache.check_of(file, kept.offset)

    def _ask(self, metrics: Path, folder: Path | None) -> None:
        if folder is not None:
            self._jobs.ask(metrics, folder)

    @staticmethod
    def _held_names(known: column_cache.CachedColumns, file: LineFile) -> dict[str, int]:
        counts = dict(known.names)
        for name, count in metric_names([read_lines(file, known.offset, file.size)[0]]).items():
            counts[name] = counts.get(name, 0) + count
        return counts


def needed_names(names: Sequence[str], axis: str) -> set[str]:
    """The metrics that curves over an axis are made of."""
    return {*names, "episodes"} if axis == "episodes" else {*names}


def _grown(kept: _Kept | None, file: LineFile, names: frozenset[str] | None) -> _Kept:
    """With the lines that were added to a file; if nothing of it is kept, all lines with these metrics."""
    start, names = (kept.offset, kept.names) if kept else (0, names)
    new, end = read_lines(file, start, file.size, names)
    chunk = joined([kept.chunk, new]) if kept and len(new) else kept.chunk if kept else new
    return _Kept(file.inode, column_cache.check_of(file, end), end, chunk, names)


def _holds(kept: _Kept, names: frozenset[str] | None) -> bool:
    return kept.names is None or (names is not None and names <= kept.names)


def _named(chunk: MetricChunk, names: Sequence[str]) -> MetricChunk:
    """The columns of these metrics alone."""
    if [*chunk.metrics] == [*names]:
        return chunk
    return replace(chunk, metrics={name: chunk.metrics[name] for name in names if name in chunk.metrics})


def _byte_range(file: LineFile, axis: str, low: float | None, high: float | None) -> tuple[int, int]:
    """Where in the file the events of a range of steps are; the whole file for other axes."""
    if axis != "steps":
        return 0, file.size
    first = 0 if low is None else file.place_of_step(low)
    if high is None:
        return first, file.size
    return first, min(file.size, file.place_of_step(np.nextafter(high, np.inf)) + 2 * WINDOW)


def _ends(file: LineFile) -> tuple[float, float] | None:
    """The steps of the first and the last event."""
    chunk = chunk_of(b"\n".join([*file.samples(1), file.read(max(0, file.size - 4 * WINDOW), file.size)]))
    return (float(chunk.steps[0]), float(chunk.steps[-1])) if len(chunk) else None


def _estimated_names(file: LineFile) -> dict[str, int]:
    lines = file.samples(NAME_SAMPLES)
    counted = metric_names([chunk_of(b"\n".join(lines))])
    estimate = file.size / max(1, sum(len(line) + 1 for line in lines))
    return {name: round(count * estimate) for name, count in counted.items()}
