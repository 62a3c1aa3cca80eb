"""Curves from columns, as `monitor/statistics.py` reads them from events: a resume replaces what was later than it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rookery.monitor.metric_chunk import START, Metric, MetricChunk

AXES = ("steps", "time", "episodes")


class ChunkCurves:
    """The curves of one run over one axis."""

    def __init__(self, chunk: MetricChunk, axis: str = "steps", *, in_order: bool = False) -> None:
        """With `in_order`, events after a later event of an earlier step are omitted: samples of the lines may not
        hold the start event that tells of a resume."""
        self._chunk = chunk
        self._kept = _kept_in_order(chunk) if in_order else _kept(chunk)
        self._places = self._on_axis(axis)
        self._latest: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def names(self) -> list[str]:
        return list(self._chunk.metrics)

    def curve(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The points of a metric; none if the run has no such metric."""
        metric = self._chunk.metrics.get(name)
        if metric is None:
            return np.empty(0), np.empty(0)
        if self._kept is None:
            return self._places_of(metric.rows), metric.values
        kept = self._kept[metric.rows]
        return self._places[metric.rows[kept]], metric.values[kept]

    def _places_of(self, rows: np.ndarray) -> np.ndarray:
        """Where on the axis events are. Most metrics are in the same events."""
        if self._latest is None or not (self._latest[0] is rows or np.array_equal(self._latest[0], rows)):
            self._latest = rows, self._places[rows]
        return self._latest[1]

    def _on_axis(self, axis: str) -> np.ndarray:
        if axis == "steps":
            return self._chunk.steps
        return self._seconds() if axis == "time" else self._episodes()

    def _seconds(self) -> np.ndarray:
        """Seconds of training. The time between a stop and a resume does not count."""
        kept = slice(None) if self._kept is None else self._kept
        times, kinds = self._chunk.times[kept], self._chunk.kinds[kept]
        passed = np.maximum(0.0, np.diff(times, prepend=times[:1]))
        passed[kinds == START] = 0.0
        seconds = np.zeros(len(self._chunk))
        seconds[kept] = np.cumsum(passed)
        return seconds

    def _episodes(self) -> np.ndarray:
        metric = self._chunk.metrics.get("episodes")
        if metric is None:
            return np.zeros(len(self._chunk))
        kept = slice(None) if self._kept is None else self._kept[metric.rows]
        rows, counts = metric.rows[kept], metric.values[kept]
        known = np.concatenate([[0.0], self._chunk.steps[rows]]), np.concatenate([[0.0], counts])
        return np.interp(self._chunk.steps, *known)


def _kept(chunk: MetricChunk) -> np.ndarray | None:
    """Which events no resume has replaced; None if that is all."""
    if not chunk.cuts:
        return None
    kept = np.ones(len(chunk), dtype=bool)
    for row, step in chunk.cuts:
        kept[:row] &= chunk.steps[:row] <= step
    return kept


def _kept_in_order(chunk: MetricChunk) -> np.ndarray:
    later = np.minimum.accumulate(chunk.steps[::-1])[::-1]
    return chunk.steps <= later


def between(chunk: MetricChunk, low: float | None, high: float | None) -> MetricChunk:
    """The columns with the values between two steps, and the next ones beyond them. No resume may have cut the run."""
    if low is None and high is None:
        return chunk
    first = 0 if low is None else int(chunk.steps.searchsorted(low))
    last = len(chunk) if high is None else int(chunk.steps.searchsorted(high, "right"))
    metrics = {name: _part(metric, first, last) for name, metric in chunk.metrics.items()}
    return MetricChunk(chunk.steps, chunk.times, chunk.kinds, chunk.cuts, metrics)


def ends_of(chunk: MetricChunk) -> tuple[float, float] | None:
    """The first and the last step at which a metric has a value."""
    known = [metric.rows for metric in chunk.metrics.values() if len(metric.rows)]
    if not known:
        return None
    first, last = min(int(rows[0]) for rows in known), max(int(rows[-1]) for rows in known)
    return float(chunk.steps[first]), float(chunk.steps[last])


def _part(metric: Metric, first: int, last: int) -> Metric:
    start, end = metric.rows.searchsorted(
        np.array([first, last], metric.rows.dtype)
    )  # another type would copy the rows
    return Metric(metric.rows[max(0, start - 1) : end + 1], metric.values[max(0, start - 1) : end + 1])


def decimated(x: np.ndarray, y: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """The curve itself if it has at most `points`; else two points for each of `points / 2` columns of equal width.
    `x` is in order.

    >>> x, y = decimated(np.arange(1000.0), np.arange(1000.0) % 10, 20)
    >>> len(x), float(y.min()), float(y.max())
    (20, 0.0, 9.0)
    """
    if len(x) <= points:
        return x, y
    edges = np.linspace(x[0], x[-1], max(1, points // 2) + 1)
    starts = _distinct(np.searchsorted(x, edges[:-1]))
    starts = starts[starts < len(x)]
    lasts = np.append(starts[1:], len(x)) - 1
    low, high = np.fmin.reduceat(y, starts), np.fmax.reduceat(y, starts)
    rises = ~(y[lasts] < y[starts])
    pairs_x = np.stack([x[starts], x[lasts]], axis=1)
    pairs_y = np.stack([np.where(rises, low, high), np.where(rises, high, low)], axis=1)
    single = starts == lasts
    keep = np.stack([np.ones_like(single), ~single], axis=1).ravel()
    return pairs_x.ravel()[keep], pairs_y.ravel()[keep]


def averaged(x: np.ndarray, y: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """The means of at most `points` columns of equal width; the curve itself if it is short. All values are finite.

    >>> [part.tolist() for part in averaged(np.arange(4.0), np.array([1.0, 3.0, 5.0, 7.0]), 2)]
    [[0.5, 2.5], [2.0, 6.0]]
    """
    if len(x) <= points:
        return x, y
    starts = _distinct(np.searchsorted(x, np.linspace(x[0], x[-1], points + 1)[:-1]))
    counts = np.diff(np.append(starts, len(x)))
    return np.add.reduceat(x, starts) / counts, np.add.reduceat(y, starts) / counts


def on_one_axis(curves: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Curves with their own points on the points of all; NaN where a curve has none."""
    if not curves:
        return np.empty(0), {}
    x = _distinct(np.sort(np.concatenate([own for own, _ in curves.values()])))
    series = {}
    for name, (own, y) in curves.items():
        series[name] = np.full(len(x), np.nan)
        series[name][np.searchsorted(x, own)] = y
    return x, series


def smoothed(y: np.ndarray, weight: float) -> np.ndarray:
    """The exponential moving average without the bias of its start; `weight` is that of the past, from 0 to below 1.

    >>> smoothed(np.array([1.0, 3.0]), 0.5).tolist()
    [1.0, 2.3333333333333335]
    """
    if weight <= 0 or not len(y):
        return y
    out, mean, total = np.empty(len(y)), 0.0, 0.0
    for at, value in enumerate(y.tolist()):
        if value == value:
            mean, total = weight * mean + (1 - weight) * value, weight * total + (1 - weight)
        out[at] = mean / total if total else np.nan
    return out


def _distinct(values: np.ndarray) -> np.ndarray:
    """Those that differ from the one before. `np.unique` would import `numpy.ma` at its first use, which the first
    page of a run would wait for."""
    return values[np.concatenate([[True], values[1:] != values[:-1]])] if len(values) else values
