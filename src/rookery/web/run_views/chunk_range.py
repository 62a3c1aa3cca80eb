"""A part of the columns of a run: what a zoom shows, without reading the rest."""

from __future__ import annotations

import numpy as np

from rookery.web.run_views.metric_chunk import Metric, MetricChunk


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
