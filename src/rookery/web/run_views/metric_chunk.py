"""Lines of metrics as columns: the arrays of a part of a run's metrics."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
import orjson

OTHER, START, PROGRESS, EVALUATION = range(4)
KINDS = {"start": START, "progress": PROGRESS, "evaluation": EVALUATION}
BASE = frozenset(("kind", "step", "time"))
NUMBERS = {int, float}
MOST_NAMES = 20_000  # of metrics in a run; the rest is left out


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

    @property
    def nbytes(self) -> int:
        return 17 * len(self.steps) + sum(12 * len(metric.values) for metric in self.metrics.values())


EMPTY = MetricChunk(np.empty(0), np.empty(0), np.empty(0, np.uint8))


def chunk_of(lines: bytes) -> MetricChunk:
    """The events in complete lines; damaged lines are skipped."""
    events = [event for event in decoded(lines) if _is_event(event)]
    if not events:
        return EMPTY
    return MetricChunk(
        np.array([event["step"] for event in events], dtype=float),
        np.array([event["time"] for event in events], dtype=float),
        np.array([_kind(event) for event in events], dtype=np.uint8),
        [(row, event["resumed_from"]) for row, event in enumerate(events) if _is_resume(event)],
        _metrics(events),
    )


def decoded(lines: bytes) -> list[Any]:
    """The values of JSON lines. All at once, which is several times faster; one by one, if one of them is damaged."""
    try:
        found: list[Any] = orjson.loads(b"[" + lines.strip().replace(b"\n", b",") + b"]")
        return found
    except ValueError:
        return [value for line in lines.splitlines() if (value := _decoded(line)) is not None]


def joined(chunks: Sequence[MetricChunk]) -> MetricChunk:
    """Chunks of one run in a row as one."""
    if len(chunks) == 1:
        return chunks[0]
    starts = np.cumsum([0, *map(len, chunks)])[:-1].tolist()
    parts: dict[str, list[Metric]] = {}
    for first, chunk in zip(starts, chunks, strict=True):
        for name, metric in chunk.metrics.items():
            parts.setdefault(name, []).append(Metric(metric.rows + np.uint32(first), metric.values))
    return MetricChunk(
        np.concatenate([chunk.steps for chunk in chunks]),
        np.concatenate([chunk.times for chunk in chunks]),
        np.concatenate([chunk.kinds for chunk in chunks]),
        [(row + first, step) for first, chunk in zip(starts, chunks, strict=True) for row, step in chunk.cuts],
        {name: _one(found) for name, found in parts.items()},
    )


def _decoded(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except ValueError:
        pass
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


def _metrics(events: Sequence[dict[str, Any]]) -> dict[str, Metric]:
    """Most events have the same keys in the same order, so that each key of a group is read as one column."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for row, event in enumerate(events):
        if event["kind"] in ("progress", "evaluation"):
            groups.setdefault(tuple(event), []).append(row)
    parts: dict[str, list[Metric]] = {}
    for names, rows in groups.items():
        members, at = [events[row] for row in rows], np.array(rows, dtype=np.uint32)
        for name in names:
            metric = None if name in BASE else _column(at, list(map(itemgetter(name), members)))
            if metric is not None and (name in parts or len(parts) < MOST_NAMES):
                parts.setdefault(name, []).append(metric)
    return {name: _one(found, in_order=False) for name, found in parts.items()}


def _column(rows: np.ndarray, values: list[Any]) -> Metric | None:
    """The numbers among the values; None if there are none. A bool is no number."""
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


def _one(parts: Sequence[Metric], in_order: bool = True) -> Metric:
    if len(parts) == 1:
        return parts[0]
    rows, values = np.concatenate([part.rows for part in parts]), np.concatenate([part.values for part in parts])
    if in_order:
        return Metric(rows, values)
    order = np.argsort(rows)
    return Metric(rows[order], values[order])


def metric_names(chunks: Iterable[MetricChunk]) -> dict[str, int]:
    """The names of metrics in the order of their appearance, with the number of their values."""
    counts: dict[str, int] = {}
    for chunk in chunks:
        for name, metric in chunk.metrics.items():
            counts[name] = counts.get(name, 0) + len(metric.values)
    return counts
