"""Curves of any length as the few points that a screen can show: the least and the largest of each pixel column."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


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
