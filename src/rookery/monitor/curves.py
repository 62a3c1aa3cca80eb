"""The curve of one metric of a run, over steps, seconds or episodes; and the curves of several seeds as one band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rookery.monitor.events import Event, scalars
from rookery.monitor.jsonl import history
from rookery.monitor.statistics import CURVE_RESAMPLES, bootstrap_interval, interquartile_mean

AXES = {"steps": "steps", "time": "seconds since the start", "episodes": "episodes"}
EVALUATION, EPISODE = "eval/return", "episode/return"
MOST_POINTS = 400


@dataclass(frozen=True)
class Curve:
    """Points of one metric of a run, in the order of the run."""

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Band:
    """The interquartile mean of several curves with its 95 % interval, where all of them have values."""

    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def read_curve(metrics_path: str | Path, metric: str = EVALUATION, axis: str = "steps") -> Curve:
    """The curve of a metric from a run's metrics file; it is empty if the run has no such metric."""
    events = history(metrics_path)
    places = _places(events, axis)
    found = [(x, scalars(event)) for x, event in zip(places, events, strict=True)]
    points = np.array([(x, values[metric]) for x, values in found if metric in values], dtype=float).reshape(-1, 2)
    return Curve(points[:, 0], points[:, 1])


def band(curves: Sequence[Curve]) -> Band:
    """The curves as one band, at the points of all of them; between its own points a curve is interpolated."""
    first, last = max(curve.x[0] for curve in curves), min(curve.x[-1] for curve in curves)
    x = np.unique(np.concatenate([curve.x for curve in curves]))
    x = x[(first <= x) & (x <= last)]
    if len(x) > MOST_POINTS:
        x = np.linspace(x[0], x[-1], MOST_POINTS)
    rows = np.stack([np.interp(x, curve.x, curve.y) for curve in curves])
    low, high = bootstrap_interval(rows, resamples=CURVE_RESAMPLES)
    return Band(x, interquartile_mean(rows), low, high)


def _places(events: list[Event], axis: str) -> np.ndarray:
    """Where on the axis each event is."""
    steps = np.array([event.step for event in events], dtype=float)
    if axis == "steps":
        return steps
    if axis == "time":
        return seconds_of_training(events)
    counted = [(event.step, event.values["episodes"]) for event in events if "episodes" in event.values]
    known = np.array([(0, 0), *counted], dtype=float)
    return np.interp(steps, known[:, 0], known[:, 1])


def seconds_of_training(events: list[Event]) -> np.ndarray:
    """Seconds of training up to each event. The time between a stop and a resume does not count."""
    seconds, before, last = [], 0.0, None
    for event in events:
        if last is not None and event.kind != "start":
            before += max(0.0, event.time - last)
        last = event.time
        seconds.append(before)
    return np.array(seconds)
