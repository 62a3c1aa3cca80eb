"""Timeframes of bars: "5m" is 300 seconds."""

from __future__ import annotations

import re

from rookery.errors import DataError

SECONDS = {"s": 1, "m": 60, "min": 60, "t": 60, "h": 3600, "d": 86_400, "w": 604_800}


def timeframe_seconds(timeframe: str | int) -> int:
    """The length of a bar in seconds, from a text such as "5m", "1h", "1d", "15min", or a number of seconds.

    >>> timeframe_seconds("5m"), timeframe_seconds("1H"), timeframe_seconds("1Day"), timeframe_seconds(60)
    (300, 3600, 86400, 60)
    """
    if isinstance(timeframe, int) and not isinstance(timeframe, bool) and timeframe > 0:
        return timeframe
    if re.fullmatch(r"\d*M", str(timeframe).strip()):  # a month elsewhere, and no number of seconds
        raise DataError(f"{timeframe!r} is no timeframe: months differ in length; 1m is a minute, and 30d are 30 days")
    found = re.fullmatch(r"(\d*)\s*(s|m|min|t|h|d|w)(?:ec|econd|inute|our|ay|eek)?s?", str(timeframe).strip().lower())
    if found is None or found[1] == "0":
        raise DataError(f"{timeframe!r} is no timeframe: give a number and a unit, such as 1m, 5m, 1h, 4h or 1d")
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
