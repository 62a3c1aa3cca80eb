"""One metric of several runs as curves to lay over each other, and seeds of one experiment as bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rookery.monitor.metric_chunk import chunk_of
from rookery.monitor.statistics import EPISODE, EVALUATION, Curve, band
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import group_runs
from rookery.web.kept import Kept
from rookery.web.run_folders import file_stamp
from rookery.web.run_views.line_file import LineFile
from rookery.web.run_views.metric_curves import ChunkCurves, averaged, decimated, smoothed
from rookery.web.run_views.metric_reader import MetricReader

POINTS = 1000  # of a curve
MOST_STEPS = 1 << 53  # up to which a float holds every integer
BAND_POINTS = 4000  # of each curve of a band, before it is interpolated


@dataclass(frozen=True)
class ComparedRun:
    """A run by its id on the page, and its folder."""

    id: str
    path: Path


class FoundPoints(NamedTuple):
    """A curve of a run."""

    run: ComparedRun
    x: np.ndarray
    y: np.ndarray
    exact: bool


def compare(
    reader: MetricReader, runs: Sequence[ComparedRun], metric: str, axis: str, smoothing: float = 0.0,
    bands: bool = False,
) -> list[dict[str, Any]]:  # fmt: skip
    """The curves, in the order of the runs; a run without the metric is omitted. With `bands`, runs that differ in
    their seeds alone are one curve, their interquartile mean, with the bootstrap interval from `low` to `high`."""
    if not bands:
        return [_single(found, smoothing) for found in _points(reader, runs, metric, axis)]
    curves = []
    by_path = {run.path: run for run in runs}
    for group in group_runs([RunDir(run.path) for run in runs]):
        members = list(_points(reader, [by_path[found.path] for found in group.runs], metric, axis))
        found = _band(members, group.name, smoothing)
        curves += [found] if found else [_single(one, smoothing) for one in members]
    return curves


def _single(found: FoundPoints, smoothing: float) -> dict[str, Any]:
    run, x, y, exact = found
    if smoothing > 0:
        x, y = averaged(x, y, POINTS)
        y = smoothed(y, smoothing)
    else:
        x, y = decimated(x, y, POINTS)
    return {"id": run.id, "label": run.path.name, "x": _short(x), "y": y, "exact": exact}


def _short(x: np.ndarray) -> np.ndarray:
    """Steps as integers: in JSON they take half the time of floats to write, and are shorter."""
    whole = x.astype(np.int64) if len(x) and -MOST_STEPS < x[0] <= x[-1] < MOST_STEPS else x
    return whole if np.array_equal(whole, x) else x


def _band(found: Sequence[FoundPoints], label: str, smoothing: float) -> dict[str, Any] | None:
    """The runs as one band; None if fewer than two of them have values in common."""
    if len(found) < 2 or max(one.x[0] for one in found) > min(one.x[-1] for one in found):
        return None
    short = [averaged(one.x, one.y, BAND_POINTS) for one in found]
    if max(x[0] for x, _ in short) > min(x[-1] for x, _ in short):
        return None
    made = band([Curve(x, smoothed(y, smoothing)) for x, y in short])
    ids = [one.run.id for one in found]
    return {
        "id": ids[0], "ids": ids, "label": label, "x": made.x, "y": made.mean, "low": made.low, "high": made.high,
        "exact": all(one.exact for one in found),
    }  # fmt: skip


def _points(reader: MetricReader, runs: Sequence[ComparedRun], metric: str, axis: str) -> Iterator[FoundPoints]:
    """The finite points of the runs that have some."""
    for run in runs:
        with suppress(OSError):  # it is gone
            found = reader.curves(run.path / "metrics.jsonl", [metric], axis)
            x, y = found.curves.curve(metric)
            finite = np.isfinite(y) & np.isfinite(x)
            if not finite.all():
                x, y = x[finite], y[finite]
            if len(x):
                yield FoundPoints(run, x, y, found.exact)


SPARK_POINTS = 48
READ_WHOLE = 1 << 16  # bytes of a file that is quicker read than sampled
MOST_KEPT = 20_000


class Sparks:
    """Spark lines by file, remembered until the file changes. It reads files: call it in a thread."""

    def __init__(self) -> None:
        self._known = Kept[Path, list[float]](MOST_KEPT)

    def of(self, metrics: Path) -> list[float]:
        """At most `SPARK_POINTS` numbers; none if the run has no returns, or is gone."""
        try:
            return self._known.of(metrics, lambda: _spark(metrics), file_stamp(metrics))
        except OSError:
            return []


def _spark(metrics: Path) -> list[float]:
    with LineFile(metrics) as file:
        for name in (EPISODE, EVALUATION):
            lines = _lines(file, name)
            _, y = ChunkCurves(chunk_of(lines), in_order=True).curve(name)
            y = y[np.isfinite(y)]
            if len(y):
                chosen = np.linspace(0, len(y) - 1, min(len(y), SPARK_POINTS)).round().astype(int)
                return [float(f"{value:.5g}") for value in y[chosen].tolist()]
    return []


def _lines(file: LineFile, name: str) -> bytes:
    if file.size <= READ_WHOLE:
        return file.read(0, file.size)
    return b"\n".join(file.samples(SPARK_POINTS, [f'"{name}"'.encode()]))
