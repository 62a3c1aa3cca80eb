"""The metrics of runs as curves: exact where that is quick, and until it is, from samples of the lines.

A run writes the columns of its metrics beside their lines, see `monitor/column_file.py`; only the last lines are
decoded. The columns of long files without are made in the background.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rookery.monitor.column_file import COLUMNS, ColumnFile, checksum
from rookery.monitor.metric_chunk import EMPTY, MetricChunk, chunk_of, joined
from rookery.web.kept import Kept
from rookery.web.run_folders import file_stamp
from rookery.web.run_views.column_cache import ColumnJobs, cached_columns
from rookery.web.run_views.line_file import WINDOW, LineFile
from rookery.web.run_views.metric_curves import ChunkCurves, between, ends_of

FEW = 4  # metrics that are decoded without the others
SMALL = 12 << 20  # bytes of lines that are read while somebody waits
# Bytes of lines without columns, for which these are made: the next one who asks should wait less. A run that writes
# columns is less behind.
LONG, LONG_WITHOUT = 2 << 20, 256 << 10
MEMORY = 48 << 20  # bytes of columns that are kept
NAME_SAMPLES, LEAST_SAMPLES = 200, 400


@dataclass(frozen=True)
class _Read:
    """What was read of a metrics file.

    Attributes:
        inode, size: Of the file, when its columns were looked for.
        columns: Those of its first lines, from a file with this `stamp`.
        loaded: Them with the metrics of these `names`.
        tail: The lines after them up to `end`, with the metrics of `tail_names`, None is all; `check` is a checksum of
            the last of them.
    """

    inode: int
    size: int
    columns: ColumnFile
    stamp: object
    end: int
    check: int
    names: frozenset[str] = frozenset()
    loaded: MetricChunk = EMPTY
    tail: MetricChunk = EMPTY
    tail_names: frozenset[str] | None = frozenset()

    @property
    def nbytes(self) -> int:
        return self.loaded.nbytes + self.tail.nbytes

    def is_true(self, file: LineFile) -> bool:
        """Whether the files are those that were read, or have grown a little."""
        same = self.inode == file.inode and self.stamp == file_stamp(self.columns.path)
        return same and file.size - self.size <= SMALL and self.check == checksum(file.fd, 0, self.end)

    def with_columns(self, names: Collection[str]) -> _Read:
        """With the columns of at least these metrics."""
        wanted = self.names | (self.columns.counts.keys() & names)
        is_loaded = wanted == self.names and len(self.loaded) == self.columns.rows
        return self if is_loaded else replace(self, names=wanted, loaded=self.columns.load(wanted))

    def with_lines(self, file: LineFile, names: Collection[str] | None) -> _Read:
        """With all lines of a file, and at least these metrics of those without columns. Few metrics of many files
        are decoded without the others; once more are requested, all are."""
        held, start, tail = self.tail_names, self.end, self.tail
        if held is not None and (names is None or not held.issuperset(names)):
            held = None if names is None or len(held.union(names)) > FEW else held.union(names)
            start, tail = self.columns.last, EMPTY
        new, end = file.columns(start, file.size, held)
        check = checksum(file.fd, 0, end)
        return replace(self, tail=joined([tail, new]), tail_names=held, end=end, check=check)


@dataclass(frozen=True)
class FoundCurves:
    """Curves, whether they are exact, and if they are of a part of the run, where the whole begins and ends."""

    curves: ChunkCurves
    exact: bool
    ends: tuple[float, float] | None = None


class MetricReader:
    """Reads metrics files. Every method reads files: call it in a thread."""

    def __init__(self) -> None:
        self._known = Kept[Path, _Read](MEMORY, lambda read: read.nbytes)
        self._jobs = ColumnJobs()

    def close(self) -> None:
        self._jobs.close()

    def names(self, metrics: Path) -> tuple[dict[str, int], bool]:
        """The names of metrics with the number of their values, and whether these numbers are exact."""
        with LineFile(metrics) as file:
            kept = self._read(metrics, file)
            if kept is None:
                return _estimated_names(file), False
            counts = dict(kept.columns.counts)
            for name, metric in kept.tail.metrics.items():
                counts[name] = counts.get(name, 0) + len(metric.values)
            return counts, True

    def curves(
        self, metrics: Path, names: Sequence[str], axis: str = "steps", low: float | None = None,
        high: float | None = None, points: int = 1500,
    ) -> FoundCurves:  # fmt: skip
        """Curves of these metrics at least from `low` to `high`."""
        needed = {*names, "episodes"} if axis == "episodes" else {*names}
        with LineFile(metrics) as file:
            kept = self._read(metrics, file, needed)
            if kept is not None:
                chunk = joined([kept.loaded.named(needed), kept.tail.named(needed)])
                if axis != "steps" or chunk.cuts:
                    return FoundCurves(ChunkCurves(chunk, axis), True)
                return FoundCurves(ChunkCurves(between(chunk, low, high)), True, ends_of(chunk))
            first, last = _byte_range(file, axis, low, high)
            if last - first <= SMALL and axis == "steps":
                return FoundCurves(ChunkCurves(file.columns(first, last)[0], axis, in_order=True), True, _ends(file))
            keys = [json.dumps(name).encode() for name in names]
            lines = b"\n".join(file.samples(max(points, LEAST_SAMPLES), keys, first, last))
            sample = ChunkCurves(chunk_of(lines).named(needed), axis, in_order=True)
            return FoundCurves(sample, False, _ends(file) if axis == "steps" else None)

    def _read(self, metrics: Path, file: LineFile, names: Collection[str] | None = None) -> _Read | None:
        """All of a file, with at least these metrics; None if that takes longer than somebody waits. Cached lines are
        used, and only new lines are read. Without `names` only the number of values is known."""
        kept = self._known.get(metrics)
        try:
            if kept is None or not kept.is_true(file):
                kept = self._open(metrics, file)
            if kept is None:
                return None
            kept = (kept if names is None else kept.with_columns(names)).with_lines(file, names)
        except (OSError, ValueError):  # the columns are being replaced at this moment
            return None
        return self._known.put(metrics, kept)

    def _open(self, metrics: Path, file: LineFile) -> _Read | None:
        """The columns that there are, without any metric yet; None if too many lines have none."""
        stamp, columns = _columns(metrics.with_name(COLUMNS), file)
        if _is_behind(columns, file) and (path := cached_columns(metrics)):
            stamp, columns = max((stamp, columns), _columns(path, file), key=lambda found: found[1].last)
            if _is_behind(columns, file):
                self._jobs.ask(metrics)
        if file.size - columns.last > SMALL:
            return None
        return _Read(file.inode, file.size, columns, stamp, columns.last, checksum(file.fd, 0, columns.last))


def _columns(path: Path, file: LineFile) -> tuple[object, ColumnFile]:
    """The stamp of a file, taken first, and what is in it."""
    return file_stamp(path), ColumnFile(path, file.fd)


def _is_behind(columns: ColumnFile, file: LineFile) -> bool:
    return file.size - columns.last > (LONG if columns.blocks else LONG_WITHOUT)


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
    estimate = file.size / max(1, sum(len(line) + 1 for line in lines))
    metrics = chunk_of(b"\n".join(lines)).metrics
    return {name: round(len(metric.values) * estimate) for name, metric in metrics.items()}
