"""Line charts as SVG. Colours are classes of the page's style, so that a chart fits a dark page and a light one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from rookery.training.backtest.figures import date_text

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 960, 64, 12, 8, 24
MOST_POINTS = 900
TICKS = 5


@dataclass(frozen=True)
class ChartLine:
    """A line of a chart. With `area`, the space between it and zero is filled."""

    name: str
    values: np.ndarray
    style: str  # a class of the page's style
    area: bool = False


def chart(
    times: np.ndarray, curves: Sequence[ChartLine], text: Callable[[float], str], height: int = 220,
    marks: Sequence[tuple[int, str]] = (), stretches: Sequence[tuple[int, int, str]] = (),
) -> str:  # fmt: skip
    """A chart of curves with one value per time. `text` writes the numbers of the vertical axis; `marks` are moments
    and `stretches` beginnings and ends, each with its name."""
    curves = [
        ChartLine(curve.name, np.nan_to_num(np.asarray(curve.values, float)), curve.style, curve.area)
        for curve in curves
    ]
    low, high = _limits(curves)
    inner = height - TOP - BOTTOM
    span = max(float(times[-1] - times[0]), 1.0)

    def x(time: np.ndarray) -> np.ndarray:
        return LEFT + (np.asarray(time, float) - times[0]) / span * (WIDTH - LEFT - RIGHT)

    def y(value: np.ndarray) -> np.ndarray:
        return TOP + (high - np.asarray(value, float)) / (high - low) * inner

    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(_label(curves))}">']
    for tick in _ticks(low, high):
        at = float(y(np.array(tick)))
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 6}" y="{at + 3.5:.1f}" text-anchor="end">{escape(text(tick))}</text>'
        )
    parts += _time_axis(times, height, x)
    parts += _moments(times, height, x, marks, stretches)
    for curve in curves:
        parts.append(_path(times, curve, x, y))
    return "\n".join([*parts, "</svg>"])


def legend(curves: Sequence[ChartLine]) -> str:
    """The names of the curves beside their colours."""
    items = (f'<span><i class="{curve.style}"></i>{escape(curve.name)}</span>' for curve in curves)
    return f'<p class="legend">{" ".join(items)}</p>'


def thinned(count: int, values: np.ndarray, most: int = MOST_POINTS) -> np.ndarray:
    """Indices of at most about `most` points that keep every extreme: of each stretch its lowest and highest value."""
    if count <= most:
        return np.arange(count)
    edges = np.linspace(0, count, most // 2 + 1).astype(int)
    kept = {0, count - 1}
    for low, high in pairwise(edges.tolist()):
        kept |= {low + int(np.argmin(values[low:high])), low + int(np.argmax(values[low:high]))}
    return np.array(sorted(kept))


def averaged(times: np.ndarray, values: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `most` means of stretches, each at the end of its stretch: for curves that jump at every bar."""
    if len(times) <= most:
        return times, values
    edges = np.linspace(0, len(times), most + 1).astype(int)
    return times[edges[1:] - 1], np.add.reduceat(values, edges[:-1]) / np.diff(edges)


def _label(curves: Sequence[ChartLine]) -> str:
    return ", ".join(curve.name for curve in curves)


def _limits(curves: Sequence[ChartLine]) -> tuple[float, float]:
    values = np.concatenate([curve.values for curve in curves])
    low, high = float(values.min()), float(values.max())
    if any(curve.area for curve in curves):
        low, high = min(low, 0.0), max(high, 0.0)
    room = 0.04 * (high - low) or max(abs(high) * 0.05, 1e-3)
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers inside the limits."""
    rough = (high - low) / TICKS
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
    return [float(k * step) for k in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]


def _time_axis(times: np.ndarray, height: int, x: Callable[[np.ndarray], np.ndarray]) -> list[str]:
    marks = np.linspace(times[0], times[-1], 6) if times[-1] > times[0] else times[:1]
    days = float(times[-1] - times[0]) / 86_400
    cut = slice(0, 10) if days > 6 else slice(5, 16)
    anchors = ("start", "middle", "middle", "middle", "middle", "end")
    places = [f'class="tick" x="{float(x(mark)):.1f}" y="{height - 6}"' for mark in marks]
    return [
        f'<text {place} text-anchor="{anchor}">{date_text(mark)[cut]}</text>'
        for place, anchor, mark in zip(places, anchors, marks, strict=False)
    ]


def _moments(
    times: np.ndarray, height: int, x: Callable[[np.ndarray], np.ndarray], marks: Sequence[tuple[int, str]],
    stretches: Sequence[tuple[int, int, str]],
) -> list[str]:  # fmt: skip
    parts, bottom = [], height - BOTTOM
    for start, end, name in stretches:
        left, right = (float(x(np.array(time))) for time in (start, end))
        width = max(right - left, 1.0)
        parts.append(f'<rect class="fall" x="{left:.1f}" y="{TOP}" width="{width:.1f}" height="{bottom - TOP}"/>')
        parts.append(f'<text class="tick" x="{left + 3:.1f}" y="{bottom - 4}">{escape(name)}</text>')
    for time, name in marks:
        if times[0] <= time <= times[-1]:
            at = float(x(np.array(time)))
            parts.append(f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{bottom}"/>')
            parts.append(f'<text class="tick" x="{at + 3:.1f}" y="{TOP + 9}">{escape(name)}</text>')
    return parts


def _path(
    times: np.ndarray, curve: ChartLine, x: Callable[[np.ndarray], np.ndarray], y: Callable[[np.ndarray], np.ndarray]
) -> str:
    kept = thinned(len(times), curve.values)
    xs, ys = x(times[kept]), y(curve.values[kept])
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(xs.tolist(), ys.tolist(), strict=True))
    if not curve.area:
        return f'<polyline class="{curve.style}" points="{points}"><title>{escape(curve.name)}</title></polyline>'
    zero = float(y(np.array(0.0)))
    closed = f"{xs[0]:.1f},{zero:.1f} {points} {xs[-1]:.1f},{zero:.1f}"
    return f'<polygon class="{curve.style} area" points="{closed}"><title>{escape(curve.name)}</title></polygon>'


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
