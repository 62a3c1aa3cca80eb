"""Statistics over the seeds of one configuration: interquartile mean and bootstrap intervals, as rliable defines them
(Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", 2021); and the curves of a
metric, over steps, seconds or episodes, of one run or of several seeds as one band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from rookery.monitor.events import Event, scalars
from rookery.monitor.jsonl import history

CONFIDENCE = 0.95
RESAMPLES = 50_000  # of single numbers; curves take fewer
CURVE_RESAMPLES = 2_000
STUDENT = (np.inf, 12.7062, 4.3027, 3.1824, 2.7764, 2.5706)  # quantiles for few degrees of freedom
AXES = {"steps": "steps", "time": "seconds since the start", "episodes": "episodes"}
EVALUATION, EPISODE = "eval/return", "episode/return"
MOST_POINTS = 400


def interquartile_mean(values: ArrayLike) -> np.ndarray:
    """The mean over the first axis without the lowest and the highest quarter, each rounded down.

    >>> float(interquartile_mean([1, 2, 3, 4, 100]))
    3.0
    """
    ordered = np.sort(np.asarray(values, dtype=float), axis=0)
    cut = len(ordered) // 4
    return ordered[cut : len(ordered) - cut].mean(axis=0)


def bootstrap_interval(
    values: ArrayLike, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The lower and the upper end of the interval of the interquartile mean, by the percentile bootstrap.

    Args:
        values: One row per run; a row is a number, or the points of a curve. A run is drawn as a whole.
        confidence: The share of bootstrap means between the two ends.
        seed: The same seed and values give the same interval.

    Example:
        >>> low, high = bootstrap_interval([1.0, 2.0, 3.0, 4.0])
        >>> float(low), float(high)
        (1.0, 4.0)
    """
    rows = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).integers(len(rows), size=(resamples, len(rows)))
    means = interquartile_mean(np.moveaxis(rows[drawn], 1, 0))
    low, high = np.percentile(means, [50 * (1 - confidence), 50 * (1 + confidence)], axis=0)
    return low, high


def mean_interval(mean: float, std: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a mean over `count` episodes, by Student's t distribution; `std` is their standard deviation
    (divided by `count`, as NumPy does). A single episode says nothing about the spread: both ends are its return.

    >>> [round(end, 2) for end in mean_interval(10.0, 2.0, 17)]
    [8.94, 11.06]
    """
    half = _student_quantile(count - 1) * std / np.sqrt(count - 1) if count > 1 else 0.0
    return float(mean - half), float(mean + half)


def _student_quantile(degrees: int) -> float:
    """The 97.5 % quantile of Student's t distribution, to within 0.2 %.

    >>> [round(_student_quantile(degrees), 2) for degrees in (1, 5, 9, 39, 10_000)]
    [12.71, 2.57, 2.26, 2.02, 1.96]
    """
    if degrees < len(STUDENT):
        return STUDENT[degrees]
    z = 1.959964
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


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
