"""Looks for wrong times: duplicates, wrong order, mixed timeframes, gaps, and bars while a market is closed."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator

import numpy as np

from rookery.data.dataset import Bars, Dataset
from rookery.data.gaps import DAY, gap_rows, session_days, sessions
from rookery.data.problem import NOTE, Problem, at_rows
from rookery.data.timeframes import timeframe_name

# Rows in a row that are equally far apart, but not by the timeframe: fewer only if they are a large part of all.
OTHER_SPACING, FEWER, LARGE_PART = 20, 10, 0.2
AHEAD = 7 * DAY
FIRST = int(np.datetime64("1900-01-01", "s").astype(np.int64))
FOREX_WEEKEND = (DAY + 22 * 3600, 3 * DAY + 21 * 3600)  # Friday 22:00 to Sunday 21:00: closed in summer and winter


def order_problems(bars: Bars, length: int) -> Iterator[Problem]:
    """Times that are duplicated, out of order, or of another unit than seconds. The other checks need times without
    these."""
    times = bars.times
    steps = np.diff(times)
    yield from at_rows(bars, np.flatnonzero(steps == 0) + 1, "this time occurs twice: remove one of the bars")
    yield from at_rows(
        bars, np.flatnonzero(steps < 0) + 1, "this bar is older than the one before it: sort them by time"
    )
    late = np.flatnonzero(times > clock.time() + AHEAD)
    yield from at_rows(bars, late, "this bar is in the future: check its time's unit")
    old = np.flatnonzero((times < FIRST) | ((times >= 0) & (times < DAY) & (length < DAY)))
    yield from at_rows(bars, old, "this bar is of 1970-01-01, or older than 1900: check its time's unit")


def calendar_problems(bars: Bars, dataset: Dataset) -> Iterator[Problem]:
    """Mixed timeframes, bars while the market is closed, and gaps while it is open."""
    if len(bars) > 1:
        yield from _of_spacing(bars, np.diff(bars.times), dataset.timeframe)
    yield from _of_sessions(bars, dataset)
    yield from _of_gaps(bars, dataset)


def _of_spacing(bars: Bars, steps: np.ndarray, length: int) -> Iterator[Problem]:
    slack = 3600 if length >= DAY else 0  # days have 23 hours when clocks are put forward
    close = np.flatnonzero(steps < length - slack) + 1
    name = timeframe_name(length)
    if len(close):
        apart = timeframe_name(int(steps[close[0] - 1]))
        yield from at_rows(bars, close, f"this bar is {apart} after the one before it, but the timeframe is {name}")
    elif len(steps) >= FEWER:
        same = np.flatnonzero(np.diff(steps, prepend=steps[0] - 1, append=steps[-1] - 1))
        runs = np.diff(same)
        long = (runs >= OTHER_SPACING) | ((runs >= FEWER) & (runs >= LARGE_PART * len(steps)))
        other = np.flatnonzero(long & (steps[same[:-1]] > length + slack))
        if len(other):
            row, apart = int(same[other[0]]), timeframe_name(int(steps[same[other[0]]]))
            what = f"from here bars are {apart} apart, but the timeframe is {name}: keep timeframes in different files"
            yield Problem(bars.symbol, row, int(bars.times[row]), what, count=int(runs[other].sum()))


def _of_sessions(bars: Bars, dataset: Dataset) -> Iterator[Problem]:
    """Bars while the market is closed."""
    starts, calendar = bars.times - dataset.timeframe, dataset.calendar
    remedy = "remove it, or give the right --calendar"
    if calendar == "24/7" or dataset.timeframe > DAY:
        return
    if calendar == "forex":
        closes, opens = FOREX_WEEKEND
        place = starts % (7 * DAY)
        weekend = (place >= closes) & (place + dataset.timeframe <= opens)
        yield from at_rows(bars, np.flatnonzero(weekend), "a bar at the weekend, when forex is closed", NOTE)
        return
    opened, closed, _ = sessions(calendar, int(starts[0]), int(bars.times[-1]))
    if dataset.timeframe == DAY:
        without = ~np.isin(session_days(bars.times), (closed - 1) // DAY)
    else:  # a session may pass midnight UTC
        days = np.concatenate([opened // DAY, (closed - 1) // DAY])
        without = ~np.isin(starts // DAY, days) & ~np.isin((bars.times - 1) // DAY, days)
    yield from at_rows(bars, np.flatnonzero(without), f"{calendar} has no session on the day of this bar: {remedy}")
    if dataset.timeframe < DAY:
        last = np.searchsorted(opened, bars.times, side="left") - 1
        outside = ~without & ((last < 0) | (starts >= closed[np.maximum(last, 0)]))
        yield from at_rows(bars, np.flatnonzero(outside), f"a bar outside the hours of {calendar}", NOTE)


def _of_gaps(bars: Bars, dataset: Dataset) -> Iterator[Problem]:
    rows = gap_rows(bars.times, dataset.timeframe, dataset.calendar)
    if len(rows):
        lost = (bars.times[rows + 1] - bars.times[rows]) // dataset.timeframe - 1
        what = f"{int(lost[0]):,} bars are missing after this one; {len(rows):,} gaps in all, the longest of "
        what += f"{int(lost.max()):,} bars: no episode crosses a gap"
        yield Problem(bars.symbol, int(rows[0]), int(bars.times[rows[0]]), what, NOTE)
