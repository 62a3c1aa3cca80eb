"""Curves and bars of block characters, as plain strings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

EIGHTHS = " ▁▂▃▄▅▆▇█"


def chart(values: Sequence[float], width: int, height: int = 1) -> list[str]:
    """The values as a filled curve, from their minimum (one eighth of a row) to their maximum (the top).

    >>> chart([1, 2, 3, 4, 5, 6, 7, 8], 8)
    ['▁▂▃▄▅▆▇█']
    >>> chart([0, 10], 5, 2)
    ['  ▁▄█', '▁▅███']
    """
    if not values or width < 1:
        return [" " * max(0, width)] * height
    columns = resampled(values, width)
    low, high = min(columns), max(columns)
    steps = 8 * height - 1
    levels = [1 + round(steps * (value - low) / (high - low)) if high > low else 4 * height for value in columns]
    rows = range(height - 1, -1, -1)
    return ["".join(EIGHTHS[min(8, max(0, level - 8 * row))] for level in levels) for row in rows]


def resampled(values: Sequence[float], width: int) -> list[float]:
    """The curve at `width` points: means if there are more values, linear interpolation if there are fewer.

    >>> resampled([1, 3, 5, 7], 2), resampled([0, 2], 3)
    ([2.0, 6.0], [0.0, 1.0, 2.0])
    """
    n = len(values)
    if n >= width:
        edges = [i * n // width for i in range(width + 1)]
        return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    places = [i * (n - 1) / (width - 1) for i in range(width)]
    lower = [min(int(place), n - 1) for place in places]
    return [
        values[i] + (place - i) * (values[min(i + 1, n - 1)] - values[i])
        for i, place in zip(lower, places, strict=True)
    ]


def divide_cells(shares: Sequence[float], width: int) -> list[int]:
    """`width` cells divided in proportion to the shares; their sum is exactly `width`.

    >>> divide_cells([0.5, 0.3, 0.2], 11)
    [6, 3, 2]
    """
    total = sum(shares)
    if total <= 0:
        return [0] * len(shares)
    exact = [width * share / total for share in shares]
    cells = [int(part) for part in exact]
    by_remainder = sorted(range(len(shares)), key=lambda i: cells[i] - exact[i])
    for i in by_remainder[: width - sum(cells)]:
        cells[i] += 1
    return cells
