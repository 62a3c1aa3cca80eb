"""Returns by period as a heat map: months by year, days by week, hours by day, or years."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

COLUMNS = {"year": ("year",), "month": MONTHS, "day": WEEKDAYS, "hour": tuple(f"{hour:02d}" for hour in range(24))}


@dataclass(frozen=True)
class HeatMap:
    """Cells by row and column; NaN where there is no period.

    Attributes:
        unit: Of a cell: "year", "month", "day" or "hour".
        rows: Names of the rows; weeks are named by their Monday.
        scale: The return with the full colour.
    """

    unit: str
    rows: Sequence[str]
    columns: Sequence[str]
    cells: np.ndarray
    scale: float


def heat_map(report: Mapping[str, Any], strategy: str = "agent") -> HeatMap:
    """The heat map with the longest unit that has at least two periods."""
    periods = report["by_period"]
    unit = next((unit for unit in ("month", "day", "hour", "year") if len(periods.get(unit, ())) >= 2), "day")
    found = periods[unit]
    places = [_place(row["period"], unit) for row in found]
    rows = list(dict.fromkeys(row for row, _ in places))
    columns = COLUMNS[unit]
    cells = np.full((len(rows), len(columns)), np.nan)
    for (row, column), values in zip(places, found, strict=True):
        cells[rows.index(row), column] = np.nan if values[strategy] is None else values[strategy]
    known = np.abs(cells[np.isfinite(cells)])
    scale = float(np.quantile(known, 0.95)) if len(known) else 0.0
    return HeatMap(unit, rows, columns, cells, scale or 1.0)


def _place(period: str, unit: str) -> tuple[str, int]:
    """The name of the row, and the column.

    >>> _place("2024-03", "month"), _place("2024-03-05", "day"), _place("2024-03-05 14:00", "hour")
    (('2024', 2), ('2024-03-04', 1), ('2024-03-05', 14))
    """
    if unit == "year":
        return period, 0
    if unit == "month":
        year, _, month = period.partition("-")
        return year, int(month) - 1
    if unit == "hour":
        return period[:10], int(period[11:13])
    day = np.datetime64(period, "D")
    weekday = int((day.astype(np.int64) - 4) % 7)
    return str(day - weekday), weekday
