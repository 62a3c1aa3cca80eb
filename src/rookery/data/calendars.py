"""Timeframes, when markets are open, and gaps: which bars are missing although the market was open."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

import numpy as np

from rookery.errors import DataError, MissingExtra

DAY, WEEK = 86_400, 604_800
# 1970 began on a Thursday. Forex ends on Friday and begins on Sunday at 21:00 or 22:00, by the season; an hour
# on each side is left to brokers with sessions of their own.
FOREX_CLOSES, FOREX_OPENS = DAY + 20 * 3600, 3 * DAY + 23 * 3600
HOLIDAYS = ("12-25", "01-01")
EVENING = 4 * 3600  # before a holiday, as on Fridays: from 20:00
YEAR_1, YEAR_9999 = (int(np.datetime64(f"{year}-01-02", "s").astype(np.int64)) for year in ("0001", "9998"))
NO_CLOSURES = np.empty((0, 2), np.int64)
SECONDS = {"s": 1, "m": 60, "min": 60, "t": 60, "h": 3600, "d": 86_400, "w": 604_800}


def segments(times: np.ndarray, timeframe: int, calendar: str = "24/7") -> np.ndarray:
    """The first and the last row (inclusive) of each stretch without an unscheduled gap, as an array (S, 2).

    >>> segments(np.array([300, 600, 1200, 1500, 1800]), 300).tolist()
    [[0, 1], [2, 4]]
    """
    if len(times) == 0:
        return np.empty((0, 2), np.int64)
    ends = gap_rows(times, timeframe, calendar)
    return np.stack([np.concatenate([[0], ends + 1]), np.concatenate([ends, [len(times) - 1]])], axis=1)


def gap_rows(times: np.ndarray, timeframe: int, calendar: str = "24/7") -> np.ndarray:
    """The rows after which at least one bar is missing although the market was open."""
    longest = timeframe + (3600 if timeframe >= DAY else 0)  # days have 25 hours when clocks are put back
    rows = np.flatnonzero(np.diff(times) > longest)
    if len(rows) == 0:
        return rows
    if timeframe == DAY and calendar not in ("24/7", "forex"):
        return rows[_misses_session(times, rows, calendar)]
    missing_from, missing_to = times[rows], times[rows + 1] - timeframe
    closed = closures(calendar, int(times[0]), int(times[-1]))
    if len(closed) == 0:
        return rows
    nearest = np.maximum(np.searchsorted(closed[:, 0], missing_from, side="right") - 1, 0)
    scheduled = (closed[nearest, 0] <= missing_from) & (missing_to <= closed[nearest, 1])
    return rows[~scheduled]


def session_days(times: np.ndarray) -> np.ndarray:
    """The day, counted from 1970, of daily bars that are complete at these times. The middle of a bar is on it, whether
    the bar begins at midnight of the exchange or of UTC."""
    return (times - DAY // 2) // DAY


def _misses_session(times: np.ndarray, rows: np.ndarray, calendar: str) -> np.ndarray:
    """Whether there was a session between the day of a row and that of the next one."""
    _, closes, _ = sessions(calendar, int(times[0]), int(times[-1]))
    days = session_days(times)
    before = np.searchsorted((closes - 1) // DAY, days[rows], side="right")
    return np.searchsorted((closes - 1) // DAY, days[rows + 1], side="left") > before


def closures(calendar: str, start: int, end: int) -> np.ndarray:
    """When the market is closed between two times, as an array (K, 2) of seconds: sorted, without overlaps."""
    if calendar == "24/7":
        return NO_CLOSURES
    if calendar == "forex":
        return _forex_closures(start, end)
    return _joined(_exchange_closures(calendar, start, end))


def _forex_closures(start: int, end: int) -> np.ndarray:
    """Weekends from Friday 20:00 to Sunday 23:00 UTC, and 25 December and 1 January from 20:00 of the day before."""
    start, end = max(start, YEAR_1), min(end, YEAR_9999)
    weeks = np.arange(start // WEEK - 1, end // WEEK + 2)[:, None] * WEEK + np.array([FOREX_CLOSES, FOREX_OPENS])
    years = range(_year(start), _year(end) + 2)
    days = np.array([f"{year:04}-{day}" for year in years for day in HOLIDAYS], "datetime64[s]").astype(np.int64)
    return _joined(np.concatenate([weeks, np.stack([days - EVENING, days + DAY], axis=1)]))


def _year(seconds: int) -> int:
    return int(np.datetime64(seconds, "s").astype("datetime64[Y]").astype(np.int64)) + 1970


def _joined(intervals: np.ndarray) -> np.ndarray:
    """Intervals that touch or overlap are made one."""
    ordered = intervals[np.argsort(intervals[:, 0], kind="stable")]
    ends = np.maximum.accumulate(ordered[:, 1])
    first = np.flatnonzero(np.concatenate([[True], ordered[1:, 0] > ends[:-1]]))
    return np.stack([ordered[first, 0], ends[np.concatenate([first[1:] - 1, [len(ends) - 1]])]], axis=1)


def _exchange_closures(calendar: str, start: int, end: int) -> np.ndarray:
    """What lies between the sessions of an exchange, with the breaks within them."""
    opens, closes, breaks = sessions(calendar, start, end)
    between = np.stack([np.concatenate([[opens[0] - 4000 * DAY], closes]),
                        np.concatenate([opens, [closes[-1] + 4000 * DAY]])], axis=1)  # fmt: skip
    return np.concatenate([between, breaks])


def sessions(calendar: str, start: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """When the sessions of an exchange open and close, and its breaks (K, 2), in seconds: at least those between two
    times and those next to them."""
    return _sessions_of_years(calendar, _year(start - 10 * DAY), _year(end + 10 * DAY))


@lru_cache(maxsize=16)
def _sessions_of_years(calendar: str, first: int, last: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    try:
        import exchange_calendars
    except ImportError as error:
        raise MissingExtra(
            f"the calendar {calendar!r} is one of exchange_calendars, which cannot be imported ({error}): "
            "pip install 'rookery[market]'"
        ) from None
    if calendar not in exchange_calendars.get_calendar_names():
        raise DataError(
            f"there is no calendar {calendar!r}: give 24/7, forex, or a name of exchange_calendars, such as XNYS"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # new versions of pandas deprecate what the package calls
            found = exchange_calendars.get_calendar(calendar, start=f"{first:04}-01-01", end=f"{last:04}-12-31")
            starts, ends = found.break_starts_nanos, found.break_ends_nanos
            opens, closes = found.opens_nanos // 10**9, found.closes_nanos // 10**9
    except ValueError as error:
        raise DataError(f"the calendar {calendar!r} has no sessions from {first} to {last}: {error}") from None
    has_break = starts > np.iinfo(np.int64).min  # the minimum stands for "none"
    return opens, closes, np.stack([starts, ends], axis=1)[has_break] // 10**9


def timeframe_seconds(timeframe: str | int) -> int:
    """The length of a bar in seconds, from a text such as "5m", "1h", "1d", "15min", or a number of seconds.

    >>> timeframe_seconds("5m"), timeframe_seconds("1H"), timeframe_seconds("1Day"), timeframe_seconds(60)
    (300, 3600, 86400, 60)
    """
    if isinstance(timeframe, int) and not isinstance(timeframe, bool) and timeframe > 0:
        return timeframe
    if re.fullmatch(r"\d*\s*M", str(timeframe).strip()):  # a month elsewhere, and no number of seconds
        raise DataError(
            f"{timeframe!r} is not a timeframe: months differ in length; 1m is a minute, and 30d are 30 days"
        )
    found = re.fullmatch(r"(\d*)\s*(s|m|min|t|h|d|w)(?:ec|econd|inute|our|ay|eek)?s?", str(timeframe).strip().lower())
    if found is None or found[1] == "0":
        raise DataError(f"{timeframe!r} is not a timeframe: give a number and a unit, such as 1m, 5m, 1h, 4h or 1d")
    return int(found[1] or 1) * SECONDS[found[2]]


def timeframe_name(seconds: int) -> str:
    """The shortest text for a timeframe.

    >>> timeframe_name(300), timeframe_name(3600), timeframe_name(604_800), timeframe_name(90)
    ('5m', '1h', '1w', '90s')
    """
    for unit in ("w", "d", "h", "m"):
        if seconds % SECONDS[unit] == 0:
            return f"{seconds // SECONDS[unit]}{unit}"
    return f"{seconds}s"
