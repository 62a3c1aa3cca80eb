"""Coarser bars from finer ones. A bar belongs to the time at which it is complete: nothing is known too early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rookery.data.dataset import Bars, Dataset
from rookery.data.gaps import DAY, WEEK, closures
from rookery.data.timeframes import timeframe_name, timeframe_seconds
from rookery.errors import DataError

MONDAY = 4 * DAY  # 1970 began on a Thursday; weeks begin on Mondays
Reduce = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def resample(dataset: Dataset, timeframe: str | int) -> Dataset:
    """Bars of a coarser timeframe, which begin at multiples of it in UTC, weeks on Mondays.

    A bar is kept only if the bars that it is made of are there from its beginning to its end: the first and the last
    one are often dropped. One in the middle is dropped if more than half of its bars are missing while the market is
    open; nothing is filled. Features take their last value, "funding" its sum.
    """
    coarse, fine = timeframe_seconds(timeframe), dataset.timeframe
    if coarse == fine:
        return dataset
    if coarse < fine or coarse % fine:
        raise DataError(
            f"{dataset.place or 'the data'}: bars of {timeframe_name(fine)} cannot become bars of "
            f"{timeframe_name(coarse)}: give a multiple of {timeframe_name(fine)}"
        )
    bars = tuple(_resampled(bars, fine, coarse, dataset.calendar) for bars in dataset.bars)
    for made in bars:
        if len(made) == 0:
            raise DataError(
                f"{dataset.place or 'the data'}: {made.symbol}: there are too few bars for one of "
                f"{timeframe_name(coarse)}"
            )
    entry = {"command": f"resample --timeframe {timeframe_name(coarse)}", "source": timeframe_name(fine)}
    return replace(dataset, bars=bars, timeframe=coarse, history=(*dataset.history, entry))


def _resampled(bars: Bars, fine: int, coarse: int, calendar: str) -> Bars:
    offset = MONDAY % coarse if coarse % WEEK == 0 else 0
    ends = -(-(bars.times - offset) // coarse) * coarse + offset  # of the bucket that each bar falls into
    first = np.flatnonzero(np.diff(ends, prepend=ends[:1] - 1)) if len(ends) else np.empty(0, np.int64)
    last = np.append(first[1:] - 1, len(ends) - 1)[: len(first)]
    columns = {name: _reduce(name)(values, first, last) for name, values in bars.columns.items()} if len(first) else {}
    made = Bars(bars.symbol, ends[first], columns or {name: values[:0] for name, values in bars.columns.items()})
    keep = _complete(bars.times, ends[first], last - first + 1, fine, coarse, calendar)
    return made.rows(keep)


def _reduce(name: str) -> Reduce:
    if name == "open":
        return lambda values, first, last: values[first]
    if name == "high":
        return lambda values, first, last: np.maximum.reduceat(values, first)
    if name == "low":
        return lambda values, first, last: np.minimum.reduceat(values, first)
    if name in ("volume", "funding"):
        return lambda values, first, last: np.add.reduceat(values, first)
    return lambda values, first, last: values[last]


def _complete(
    times: np.ndarray, ends: np.ndarray, counts: np.ndarray, fine: int, coarse: int, calendar: str
) -> np.ndarray:
    """Which buckets have enough bars, and begin and end within the data."""
    if len(ends) == 0:
        return np.zeros(0, bool)
    whole = (ends <= times[-1]) & (ends - coarse >= times[0] - fine)
    starts = (ends - coarse)[:, None] + fine * np.arange(coarse // fine)
    closed = closures(calendar, int(times[0]), int(times[-1]))
    expected = np.full(len(ends), coarse // fine)
    if len(closed):
        nearest = np.maximum(np.searchsorted(closed[:, 0], starts, side="right") - 1, 0)
        shut = (closed[nearest, 0] <= starts) & (starts + fine <= closed[nearest, 1])
        expected = np.maximum((~shut).sum(axis=1), 1)
    return whole & (2 * counts >= expected)
