"""Lines of metrics as columns: the arrays of a part of a run's metrics."""

from __future__ import annotations

import json
from array import array
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import numpy as np

try:
    from orjson import loads
except ImportError:  # without the extra `web`: slower, with the same results
    from json import loads  # type: ignore[assignment]

OTHER, START, PROGRESS, EVALUATION = range(4)
KINDS = {"start": START, "progress": PROGRESS, "evaluation": EVALUATION}
BASE = frozenset(("kind", "step", "time"))
NUMBERS = {int, float}
MOST_NAMES = 20_000  # of metrics in a run; the rest is omitted


@dataclass(frozen=True)
class Metric:
    """The values of one metric, and the rows of the events that tell them."""

    rows: np.ndarray  # uint32
    values: np.ndarray  # float64


@dataclass(frozen=True)
class MetricChunk:
    """Events as columns. A cut (row, step) is a resume: of the events before that row, those after that step are
    replaced by what follows."""

    steps: np.ndarray
    times: np.ndarray
    kinds: np.ndarray
    cuts: Sequence[tuple[int, float]] = ()
    metrics: dict[str, Metric] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.steps)

    def named(self, names: Collection[str]) -> MetricChunk:
        """The columns of these metrics alone."""
        return replace(self, metrics={name: self.metrics[name] for name in names if name in self.metrics})

    @property
    def nbytes(self) -> int:
        return 17 * len(self.steps) + sum(12 * len(metric.values) for metric in self.metrics.values())


EMPTY = MetricChunk(np.empty(0), np.empty(0), np.empty(0, np.uint8))


def chunk_of(lines: bytes, names: Collection[str] | None = None) -> MetricChunk:
    """The events in complete lines, with the metrics of these names or all; damaged lines are skipped."""
    events = [event for event in decoded(lines) if _is_event(event)]
    if not events:
        return EMPTY
    return MetricChunk(
        np.array([event["step"] for event in events], dtype=float),
        np.array([event["time"] for event in events], dtype=float),
        np.array([_kind(event) for event in events], dtype=np.uint8),
        [(row, event["resumed_from"]) for row, event in enumerate(events) if _is_resume(event)],
        _metrics(events, names),
    )


def decoded(lines: bytes) -> list[Any]:
    """The values of JSON lines. All at once, which is several times faster; one by one, if one of them is damaged."""
    try:
        found: list[Any] = loads(b"[" + lines.strip().replace(b"\n", b",") + b"]")
        return found
    except (ValueError, RecursionError):
        return [value for line in lines.splitlines() if (value := _decoded(line)) is not None]


def joined(chunks: Sequence[MetricChunk]) -> MetricChunk:
    """Chunks of one run in a row as one."""
    chunks = [chunk for chunk in chunks if len(chunk)]
    if len(chunks) <= 1:
        return chunks[0] if chunks else EMPTY
    starts = np.cumsum([0, *map(len, chunks)])[:-1].tolist()
    parts: dict[str, list[tuple[int, Metric]]] = {}
    for first, chunk in zip(starts, chunks, strict=True):
        for name, metric in chunk.metrics.items():
            parts.setdefault(name, []).append((first, metric))
    rows: dict[tuple[int, ...], np.ndarray] = {}  # most metrics are in the same events
    metrics = {}
    for name, found in parts.items():
        key = tuple(id(metric.rows) for _, metric in found)
        if key not in rows:
            rows[key] = np.concatenate([metric.rows + np.uint32(first) for first, metric in found])
        metrics[name] = Metric(rows[key], np.concatenate([metric.values for _, metric in found]))
    return MetricChunk(
        np.concatenate([chunk.steps for chunk in chunks]),
        np.concatenate([chunk.times for chunk in chunks]),
        np.concatenate([chunk.kinds for chunk in chunks]),
        [(row + first, step) for first, chunk in zip(starts, chunks, strict=True) for row, step in chunk.cuts],
        metrics,
    )


def _decoded(line: bytes) -> Any:
    with suppress(ValueError, RecursionError):
        return loads(line)
    try:
        return json.loads(line)  # it also reads NaN and large integers
    except (ValueError, RecursionError):
        return None


def _is_event(event: Any) -> bool:
    return (
        isinstance(event, dict)
        and "kind" in event
        and type(event.get("step")) in NUMBERS
        and type(event.get("time")) in NUMBERS
        and abs(event["step"]) < 1e300
    )


def _kind(event: dict[str, Any]) -> int:
    kind = event["kind"]
    return KINDS.get(kind, OTHER) if isinstance(kind, str) else OTHER


def _is_resume(event: dict[str, Any]) -> bool:
    return event["kind"] == "start" and type(event.get("resumed_from")) in NUMBERS


def _metrics(events: Sequence[dict[str, Any]], wanted: Collection[str] | None) -> dict[str, Metric]:
    """Most events have the same keys in the same order, so that each key of a group is read as one column."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for row, event in enumerate(events):
        if event["kind"] in ("progress", "evaluation"):
            groups.setdefault(tuple(event), []).append(row)
    parts: dict[str, list[Metric]] = {}
    for names, rows in groups.items():
        members, at = [events[row] for row in rows], np.array(rows, dtype=np.uint32)
        for name in names:
            if name in BASE or (wanted is not None and name not in wanted):
                continue
            metric = _column(at, list(map(itemgetter(name), members)))
            if metric is not None and (name in parts or len(parts) < MOST_NAMES):
                parts.setdefault(name, []).append(metric)
    return {name: _one(found) for name, found in parts.items()}


def _column(rows: np.ndarray, values: list[Any]) -> Metric | None:
    """The numbers among the values; None if there are none. A bool is not a number."""
    if not set(map(type, values)) <= NUMBERS:
        chosen = [at for at, value in enumerate(values) if type(value) in NUMBERS]
        if not chosen:
            return None
        rows, values = rows[chosen], [values[at] for at in chosen]
    try:
        return Metric(rows, np.frombuffer(array("d", values)))  # several times faster than `np.array`
    except OverflowError:  # an integer that no float can hold
        return Metric(rows, np.array([_as_float(value) for value in values]))


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _one(parts: Sequence[Metric]) -> Metric:
    """The values of events with different keys, in the order of the events."""
    if len(parts) == 1:
        return parts[0]
    rows, values = np.concatenate([part.rows for part in parts]), np.concatenate([part.values for part in parts])
    order = np.argsort(rows)
    return Metric(rows[order], values[order])
