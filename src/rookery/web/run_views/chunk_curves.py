"""Curves from columns, as `monitor/statistics.py` reads them from events: a resume replaces what was later than it."""

from __future__ import annotations

import numpy as np

from rookery.web.run_views.metric_chunk import START, MetricChunk

AXES = ("steps", "time", "episodes")


class ChunkCurves:
    """The curves of one run over one axis."""

    def __init__(self, chunk: MetricChunk, axis: str = "steps", *, in_order: bool = False) -> None:
        """With `in_order`, events after a later event of an earlier step are left out: samples of the lines may not
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
        """Where on the axis events are. Most metrics are told by the same events."""
        if self._latest is None or not np.array_equal(self._latest[0], rows):
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
