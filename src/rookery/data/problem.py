"""A problem with bars, named by symbol, row and time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rookery.console import printable
from rookery.data.dataset import Bars

ERROR, NOTE = "error", "note"


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
            where += f" ({time_text(self.time)})"
        more = f" (and {self.count - 1:,} more rows)" if self.count > 1 else ""
        return f"{where}: {self.what}{more}" if where else f"{self.what}{more}"


def time_text(seconds: int) -> str:
    """
    >>> time_text(1_577_836_800)
    '2020-01-01 00:00 UTC'
    """
    try:
        text = str(np.datetime64(int(seconds), "s")).replace("T", " ")
    except (ValueError, OverflowError):
        return f"{seconds} s"
    return f"{text.removesuffix(':00')} UTC"


def at_rows(
    bars: Bars, rows: np.ndarray, what: str, severity: str = ERROR, value: np.ndarray | None = None
) -> Iterator[Problem]:
    """One problem for all rows, which names the first; nothing if there are none."""
    if len(rows):
        first = int(rows[0])
        got = "" if value is None else f", got {value[first]:g}"
        head, colon, remedy = what.partition(":")
        yield Problem(bars.symbol, first, int(bars.times[first]), f"{head}{got}{colon}{remedy}", severity, len(rows))
