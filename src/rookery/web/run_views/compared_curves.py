"""One metric of several runs as curves to lay over each other, and seeds of one experiment as bands."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.monitor.curves import Curve, band
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import group_runs
from rookery.web.run_views.decimation import averaged, decimated, smoothed
from rookery.web.run_views.metric_reader import MetricReader

POINTS = 1000  # of a curve
THREADS = 2  # most of the reading needs no interpreter
BAND_POINTS = 4000  # of each curve of a band, before it is interpolated


@dataclass(frozen=True)
class ComparedRun:
    """A run by its id on the page, and its folder."""

    id: str
    path: Path


def compare(
    reader: MetricReader, runs: Sequence[ComparedRun], metric: str, axis: str, smoothing: float = 0.0,
    bands: bool = False,
) -> list[dict[str, Any]]:  # fmt: skip
    """The curves, in the order of the runs; a run without the metric is left out. With `bands`, runs that differ in
    their seeds alone are one curve, their interquartile mean, with the bootstrap interval from `low` to `high`."""
    if not bands:
        with ThreadPoolExecutor(THREADS) as threads:
            singles = threads.map(lambda run: _single(reader, run, metric, axis, smoothing), runs)
            return [curve for curve in singles if curve]
    curves = []
    by_path = {run.path: run for run in runs}
    for group in group_runs([RunDir(run.path) for run in runs]):
        members = [by_path[found.path] for found in group.runs]
        found = _band(reader, members, group.name, metric, axis, smoothing) if len(members) > 1 else None
        curves += (
            [found] if found else [one for run in members if (one := _single(reader, run, metric, axis, smoothing))]
        )
    return curves


def _single(reader: MetricReader, run: ComparedRun, metric: str, axis: str, smoothing: float) -> dict[str, Any] | None:
    x, y, exact = _points(reader, run, metric, axis)
    if not len(x):
        return None
    if smoothing > 0:
        x, y = averaged(x, y, POINTS)
        y = smoothed(y, smoothing)
    else:
        x, y = decimated(x, y, POINTS)
    return {"id": run.id, "label": run.path.name, "x": x, "y": y, "exact": exact}


def _band(
    reader: MetricReader, runs: Sequence[ComparedRun], label: str, metric: str, axis: str, smoothing: float
) -> dict[str, Any] | None:
    """The runs as one band; None if fewer than two of them have values in common."""
    found = [(run, *_points(reader, run, metric, axis)) for run in runs]
    found = [one for one in found if len(one[1])]
    if len(found) < 2 or max(one[1][0] for one in found) > min(one[1][-1] for one in found):
        return None
    short = [averaged(x, y, BAND_POINTS) for _, x, y, _ in found]
    if max(x[0] for x, _ in short) > min(x[-1] for x, _ in short):
        return None
    made = band([Curve(x, smoothed(y, smoothing)) for x, y in short])
    ids = [run.id for run, *_ in found]
    return {
        "id": ids[0], "ids": ids, "label": label, "x": made.x, "y": made.mean, "low": made.low, "high": made.high,
        "exact": all(exact for *_, exact in found),
    }  # fmt: skip


def _points(reader: MetricReader, run: ComparedRun, metric: str, axis: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """The finite points of a run; none if it is gone."""
    try:
        found = reader.curves(run.path / "metrics.jsonl", [metric], axis)
    except OSError:
        return np.empty(0), np.empty(0), True
    x, y = found.curves.curve(metric)
    finite = np.isfinite(y) & np.isfinite(x)
    return x[finite], y[finite], found.exact
