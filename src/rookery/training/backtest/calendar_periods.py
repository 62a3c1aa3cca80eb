"""Hours, days, weeks, months and years of UTC, for figures by period; and how many bars a year has."""

from __future__ import annotations

import numpy as np

from rookery.data.timeframes import timeframe_name
from rookery.errors import OptionError
from rookery.performance.ratios import periods_per_year

DAY, YEAR = 86_400, 365 * 86_400  # seconds
UNITS = ("year", "month", "week", "day", "hour")
MOST = 400  # periods that are worth listing
MONDAY = 4  # days from 1970-01-01, a Thursday, to the first Monday


def labels(times: np.ndarray, unit: str) -> np.ndarray:
    """The period of each bar, such as "2024-03" or "2024-03-05 14:00"; weeks are named by their Monday. A bar that is
    complete at midnight belongs to the day before.

    >>> labels(np.array([86_400, 86_401, 31 * 86_400 + 1]), "day").tolist()
    ['1970-01-01', '1970-01-02', '1970-02-01']
    """
    inside = (np.asarray(times, np.int64) - 1).astype("datetime64[s]")
    if unit == "week":
        days = inside.astype("datetime64[D]").astype(np.int64)
        return (days - (days - MONDAY) % 7).astype("datetime64[D]").astype(str)
    if unit == "hour":
        return np.char.add(np.char.replace(inside.astype("datetime64[h]").astype(str), "T", " "), ":00")
    return inside.astype(f"datetime64[{unit[0].upper()}]").astype(str)


def useful_units(times: np.ndarray) -> list[str]:
    """Units with at least two and not too many periods, the longest first; if there is none, the day."""
    count = {unit: len(np.unique(labels(times, unit))) for unit in UNITS}
    return [unit for unit in UNITS if 2 <= count[unit] <= MOST] or ["day"]


def bars_per_year(times: np.ndarray, timeframe: int, calendar: str) -> tuple[float, str]:
    """How many bars a year has, and how that was found out.

    >>> bars_per_year(np.arange(3), 3600, "24/7")
    (8760.0, '8,760 bars of 1h a year: 365 days of 24 hours')
    """
    how = {"24/7": "365 days of 24 hours", "forex": "52 weeks of 5 days of 24 hours"}.get(calendar, "252 sessions")
    try:
        bars = periods_per_year(timeframe, calendar)
    except OptionError:  # how long its sessions are is not known
        span = float(times[-1] - times[0]) if len(times) > 1 else 0.0
        bars = (len(times) - 1) * YEAR / span if span > 0 else YEAR / timeframe
        how = f"counted in the data, calendar {calendar}"
    return bars, f"{bars:,.0f} bars of {timeframe_name(timeframe)} a year: {how}"


def date_text(seconds: float) -> str:
    """A time as people read it.

    >>> date_text(0)
    '1970-01-01 00:00'
    """
    return str(np.datetime64(int(seconds), "s"))[:16].replace("T", " ")
