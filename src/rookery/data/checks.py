"""Looks for bars that would corrupt a world, each named by symbol, row and time; and what a dataset holds."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.data.calendars import DAY, gap_rows, segments, session_days, sessions, timeframe_name
from rookery.data.dataset import BAR_COLUMNS, PRICES, Bars, Dataset
from rookery.errors import DataError

ERROR, NOTE = "error", "note"
TWICE = "this time occurs twice"
ABSURD, LARGE = 100.0, 5.0  # ratios of a price to the last close: no market does that in a bar, few do
ROUNDING = 1e-6  # of a price; adjusted prices are rounded
# Rows in a row that are equally far apart, but not by the timeframe: fewer only if they are a large part of all.
OTHER_SPACING, FEWER, LARGE_PART = 20, 10, 0.2
AHEAD = 7 * DAY
QUANTILES = (0.0, 0.05, 0.5, 0.95, 1.0)  # of the columns in a summary
FIRST = int(np.datetime64("1900-01-01", "s").astype(np.int64))
FOREX_WEEKEND = (DAY + 22 * 3600, 3 * DAY + 21 * 3600)  # Friday 22:00 to Sunday 21:00: closed in summer and winter


def problems(dataset: Dataset) -> list[Problem]:
    """Everything that is wrong with the bars, errors first."""
    found = list(_of_dataset(dataset))
    for bars in dataset.bars:
        broken = list(_of_layout(bars))
        wrong = broken or list(_of_order(bars, dataset.timeframe))
        found += wrong if broken else [*wrong, *_of_values(bars)]
        if not wrong:
            found += [*_of_calendar(bars, dataset), *_of_features(bars, dataset)]
    return sorted(found, key=lambda problem: problem.severity != ERROR)


def refuse_bad(dataset: Dataset) -> None:
    """Raise a DataError that names the first error, if there is one."""
    errors = [problem for problem in problems(dataset) if problem.severity == ERROR]
    if errors:
        place = printable(dataset.place or "the data")
        more = f"; {len(errors) - 1} more errors: `rookery data check` lists them" if len(errors) > 1 else ""
        raise DataError(f"{place}: {errors[0]}{more}")


def _of_dataset(dataset: Dataset) -> Iterator[Problem]:
    if not dataset.bars:
        yield Problem("", None, None, "there is no symbol")
    for symbol in dict.fromkeys(dataset.symbols):
        if dataset.symbols.count(symbol) > 1:
            yield Problem(symbol, None, None, "the symbol occurs twice: remove or rename one")


def _of_layout(bars: Bars) -> Iterator[Problem]:
    """What makes the other checks impossible."""
    missing = [name for name in BAR_COLUMNS if name not in bars.columns]
    if missing:
        yield Problem(bars.symbol, None, None, f"there is no column {', '.join(missing)}")
    for name, values in bars.columns.items():
        if np.shape(values) != np.shape(bars.times):
            what = f"the column {name} has the shape {np.shape(values)}, the times have {np.shape(bars.times)}"
            yield Problem(bars.symbol, None, None, what)
        elif np.asarray(values).dtype.kind not in "fiu":
            yield Problem(bars.symbol, None, None, f"the column {name} holds no numbers")
    if len(bars) == 0:
        yield Problem(bars.symbol, None, None, "there are no bars")
    elif np.asarray(bars.times).dtype.kind not in "iu":
        yield Problem(bars.symbol, None, None, "the times should be integers: seconds since 1970 in UTC")


@dataclass(frozen=True)
class Problem:
    """What is wrong with the bars of a symbol.

    Attributes:
        symbol: Its name; "" if the whole dataset is meant.
        row: The first row concerned, counted from 0; None if there is none.
        time: When that bar is complete, in seconds; None without a row.
        what: One sentence.
        severity: "error": a world refuses the bars; "note": worth knowing.
        count: The number of rows concerned.
    """

    symbol: str
    row: int | None
    time: int | None
    what: str
    severity: str = ERROR
    count: int = 1

    def __str__(self) -> str:
        where = printable(self.symbol)
        if self.row is not None:
            where += f" row {self.row}"
        if self.time is not None:
            where += f" ({_time_text(self.time)})"
        more = f" (and {self.count - 1:,} more rows)" if self.count > 1 else ""
        return f"{where}: {self.what}{more}" if where else f"{self.what}{more}"


def _time_text(seconds: int) -> str:
    """
    >>> _time_text(1_577_836_800)
    '2020-01-01 00:00 UTC'
    """
    try:
        text = str(np.datetime64(int(seconds), "s")).replace("T", " ")
    except (ValueError, OverflowError):
        return f"{seconds} s"
    return f"{text.removesuffix(':00')} UTC"


def at_rows(
    bars: Bars, wrong: np.ndarray, what: str, severity: str = ERROR, value: np.ndarray | None = None
) -> Iterator[Problem]:
    """One problem for all rows that are wrong, which names the first; nothing if there are none."""
    rows = np.flatnonzero(wrong)
    if len(rows):
        first = int(rows[0])
        got = "" if value is None else f", got {value[first]:g}"
        head, colon, remedy = what.partition(":")
        yield Problem(bars.symbol, first, int(bars.times[first]), f"{head}{got}{colon}{remedy}", severity, len(rows))


def _of_values(bars: Bars) -> Iterator[Problem]:
    """Prices and volumes."""
    opened, high, low, close = prices = [bars[name] for name in PRICES]
    volume, bad = bars["volume"], np.zeros(len(bars), bool)
    for name, values in zip(BAR_COLUMNS, (*prices, volume), strict=True):
        finite = np.isfinite(values)
        yield from at_rows(bars, ~finite, f"{name} is not a finite number: remove the bar", value=values)
        bad |= ~finite
        if name != "volume":
            yield from at_rows(
                bars, finite & (values <= 0), f"{name} should be > 0: remove or correct the bar", value=values
            )
            bad |= values <= 0
    yield from at_rows(bars, volume < 0, "volume should be >= 0: remove or correct the bar", value=volume)
    yield from at_rows(bars, ~bad & (high < low), "high is below low: are columns swapped?", value=high)
    bad |= high < low
    for name, values in (("open", opened), ("close", close)):
        outside = (values > high * (1 + ROUNDING)) | (values < low * (1 - ROUNDING))
        yield from at_rows(
            bars, ~bad & outside, f"{name} is not between low and high: are columns swapped?", value=values
        )
    if not bad.any():
        yield from _of_jumps(bars, np.stack(prices))
        if len(bars) >= FEWER and _runs_backwards(opened, close):
            what = "bars open where the next one closes: are open and close swapped, or the times reversed?"
            yield Problem(bars.symbol, None, None, what)


def _runs_backwards(opened: np.ndarray, close: np.ndarray) -> bool:
    """Bars open much nearer to where the next one closes than to where the last one closed."""
    distance = np.median(np.abs(opened - close))
    forwards, backwards = np.median(np.abs(opened[1:] - close[:-1])), np.median(np.abs(opened[:-1] - close[1:]))
    return bool(backwards < min(distance, forwards) / 4)


def _of_jumps(bars: Bars, prices: np.ndarray) -> Iterator[Problem]:
    last = np.concatenate([prices[:1, 0], prices[3, :-1]])
    ratio = np.maximum(prices / last, last / prices).max(axis=0)
    what = "a price is {:,.0f} times or a fraction of the last close"
    for rows, severity in ((ratio > ABSURD, ERROR), ((ratio > LARGE) & (ratio <= ABSURD), NOTE)):
        text = what.format(ratio[rows.argmax()])
        yield from at_rows(bars, rows, f"{text}: check for a split or a wrong unit", severity)
    lowest, highest = prices.min(axis=0), prices.max(axis=0)
    above = lowest[1:-1] > LARGE * np.maximum(highest[:-2], highest[2:])
    below = LARGE * highest[1:-1] < np.minimum(lowest[:-2], lowest[2:])
    alone = np.concatenate([[False], above | below, [False]])[: len(bars)]
    what = f"the bars before and after it are over {LARGE:g} times higher or lower: remove or correct the bar"
    yield from at_rows(bars, alone, what)


def _of_features(bars: Bars, dataset: Dataset) -> Iterator[Problem]:
    """Features may be missing at the beginning, and after a gap; a world never starts there."""
    names = [name for name in bars.columns if name not in BAR_COLUMNS]
    firsts = segments(bars.times, dataset.timeframe, dataset.calendar)[:, 0] if names else np.empty(0, np.int64)
    for name in names:
        values = bars[name]
        yield from at_rows(bars, np.isinf(values), f"{name} is infinite", value=values)
        missing = np.isnan(values)
        if missing.any():
            begins = missing & ~np.concatenate([[False], missing[:-1]])
            begins[firsts] = False
            yield from at_rows(bars, begins, f"{name} is missing after its first bars")


def _of_order(bars: Bars, length: int) -> Iterator[Problem]:
    """Times that are duplicated, out of order, or of another unit than seconds. The other checks need times without
    these."""
    times = bars.times
    steps = np.diff(times, prepend=times[0] - 1)
    yield from at_rows(bars, steps == 0, f"{TWICE}: remove one of the bars")
    yield from at_rows(bars, steps < 0, "this bar is older than the one before it: sort them by time")
    late = times > clock.time() + AHEAD
    yield from at_rows(bars, late, "this bar is in the future: check its time's unit")
    old = (times < FIRST) | ((times >= 0) & (times < DAY) & (length < DAY))
    yield from at_rows(bars, old, "this bar is of 1970-01-01, or older than 1900: check its time's unit")


def _of_calendar(bars: Bars, dataset: Dataset) -> Iterator[Problem]:
    """Mixed timeframes, bars while the market is closed, and gaps while it is open."""
    if len(bars) > 1:
        yield from _of_spacing(bars, np.diff(bars.times), dataset.timeframe)
    yield from _of_sessions(bars, dataset)
    yield from _of_gaps(bars, dataset)


def _of_spacing(bars: Bars, steps: np.ndarray, length: int) -> Iterator[Problem]:
    slack = 3600 if length >= DAY else 0  # days have 23 hours when clocks are put forward
    close = np.append(False, steps < length - slack)
    name = timeframe_name(length)
    if close.any():
        apart = timeframe_name(int(steps[close.argmax() - 1]))
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
        yield from at_rows(bars, weekend, "a bar at the weekend, when forex is closed", NOTE)
        return
    opened, closed, _ = sessions(calendar, int(starts[0]), int(bars.times[-1]))
    if dataset.timeframe == DAY:
        without = ~np.isin(session_days(bars.times), (closed - 1) // DAY)
    else:  # a session may pass midnight UTC
        days = np.concatenate([opened // DAY, (closed - 1) // DAY])
        without = ~np.isin(starts // DAY, days) & ~np.isin((bars.times - 1) // DAY, days)
    yield from at_rows(bars, without, f"{calendar} has no session on the day of this bar: {remedy}")
    if dataset.timeframe < DAY:
        last = np.searchsorted(opened, bars.times, side="left") - 1
        outside = ~without & ((last < 0) | (starts >= closed[np.maximum(last, 0)]))
        yield from at_rows(bars, outside, f"a bar outside the hours of {calendar}", NOTE)


def _of_gaps(bars: Bars, dataset: Dataset) -> Iterator[Problem]:
    rows = gap_rows(bars.times, dataset.timeframe, dataset.calendar)
    if len(rows):
        lost = (bars.times[rows + 1] - bars.times[rows]) // dataset.timeframe - 1
        what = f"{int(lost[0]):,} bars are missing after this one; {len(rows):,} gaps in all, the longest of "
        what += f"{int(lost.max()):,} bars: no episode crosses a gap"
        yield Problem(bars.symbol, int(rows[0]), int(bars.times[rows[0]]), what, NOTE)


def summary(dataset: Dataset) -> dict[str, Any]:
    """Symbols, spans, gaps, columns, hash and history.

    >>> from rookery.data.synth import synthesise
    >>> summary(synthesise(1, 10))["symbols"][0]["bars"]
    10
    """
    return {
        "place": dataset.place,
        "timeframe": timeframe_name(dataset.timeframe),
        "calendar": dataset.calendar,
        "one_price": dataset.one_price,
        "columns": list(dataset.column_names) if dataset.bars else [],
        "observed": list(dataset.observed) if dataset.bars else [],
        "values": _values(dataset) if dataset.bars else {},
        "symbols": [_of_symbol(bars, dataset) for bars in dataset.bars],
        "hash": dataset.hash,
        "history": [dict(entry) for entry in dataset.history],
    }


def _values(dataset: Dataset) -> dict[str, list[float]]:
    """The quantiles in `QUANTILES` of each column, over all symbols."""
    found = {}
    for name in dataset.column_names:
        values = np.concatenate([bars[name] for bars in dataset.bars])
        finite = values[np.isfinite(values)]
        if len(finite):
            found[name] = np.quantile(finite, QUANTILES).tolist()
    return found


def _of_symbol(bars: Bars, dataset: Dataset) -> dict[str, Any]:
    rows = gap_rows(bars.times, dataset.timeframe, dataset.calendar)
    missing = int(np.sum((bars.times[rows + 1] - bars.times[rows]) // dataset.timeframe - 1)) if len(rows) else 0
    first, last = (_time_text(int(bars.times[row])) for row in (0, -1)) if len(bars) else ("", "")
    return {
        "symbol": bars.symbol, "bars": len(bars), "first": first, "last": last, "gaps": len(rows), "missing": missing,
    }  # fmt: skip


def problem_values(problem: Problem) -> dict[str, Any]:
    """A problem as plain values."""
    time = None if problem.time is None else _time_text(problem.time)
    return {
        "severity": problem.severity, "symbol": problem.symbol, "row": problem.row, "time": time, "what": problem.what,
        "count": problem.count,
    }  # fmt: skip
