"""Pages of bars, as a feed answers: one row per bar, with the time at which the bar STARTS."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

import numpy as np

from rookery.console import say
from rookery.data.feeds.keys import Keys
from rookery.data.feeds.retries import TemporaryFailure

COLUMNS = 6  # start, open, high, low, close, volume
SETTLE_SECONDS = 2  # after the end of a bar, before it counts as complete: trades arrive late
CLOCK_SECONDS = 60  # difference between two clocks that is worth a line


@dataclass(frozen=True)
class Series:
    """What is downloaded: one symbol of one source.

    Attributes:
        source: "alpaca", or "ccxt:" and the name of an exchange.
        timeframe: Length of a bar in seconds.
        feed: Which of the source's feeds; "" if there is one.
        adjustment: How prices are changed for splits and dividends; "raw": not at all.
    """

    source: str
    symbol: str
    timeframe: int
    feed: str = ""
    adjustment: str = "raw"


@dataclass(frozen=True)
class Page:
    """A part of the bars from a start time on.

    Attributes:
        rows: (n, 6) float64: start in seconds, open, high, low, close, volume.
        upto: No later page has a bar that starts before this time.
        more: What `Feed.page` gets for the next page, if it begins at `upto`; None: nothing.
    """

    rows: np.ndarray
    upto: int
    more: Any = None


class Feed(Protocol):
    """A source of bars."""

    who: str  # its name in messages
    keys: Keys
    clock: Clock

    def check(self, series: Sequence[Series]) -> None:
        """Refuse symbols and timeframes that it does not have, as far as it can tell."""

    def page(self, series: Series, start: int, end: int, more: Any) -> Page:
        """Bars that start at `start` or later, and before `end`. A TemporaryFailure if it may be asked again."""

    def complete_at(self, series: Series, starts: np.ndarray) -> np.ndarray:
        """When bars with these starts are complete."""

    def close(self) -> None:
        """Close its connections."""


class Clock:
    """The time now, by this machine or by the feed's server, whichever is earlier: a clock that is fast would take a
    bar for complete that still changes."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._ahead: float | None = None  # of this machine's clock; a slow answer makes it seem larger, never smaller

    def now(self) -> float:
        return time.time() - max(self._ahead or 0.0, 0.0)

    @property
    def ahead(self) -> float | None:
        """Seconds by which this machine's clock is before the server's; None until the server has told its time."""
        return self._ahead

    def learn(self, date: str | None) -> None:
        """From the header `Date` of an answer that has just arrived."""
        try:
            ahead = time.time() - parsedate_to_datetime(date or "").timestamp()
        except (ValueError, TypeError, OverflowError):
            return
        if self._ahead is None and ahead > CLOCK_SECONDS:
            say(f"the clock of {self._who} is {ahead:.0f} s behind this machine's: bars are complete by that clock")
        self._ahead = ahead if self._ahead is None else min(ahead, self._ahead)


def rows_from(bars: Iterable[Sequence[Any]]) -> np.ndarray:
    """Rows from an answer; a missing price or volume is NaN. A bar without a time means that the answer is damaged."""
    try:
        rows = np.array([[np.nan if value is None else float(value) for value in bar] for bar in bars], np.float64)
    except (TypeError, ValueError):
        raise TemporaryFailure("the answer holds something else than bars") from None
    rows = rows.reshape(-1, COLUMNS) if rows.size == 0 else rows
    if rows.ndim != 2 or rows.shape[1] != COLUMNS or not np.all(np.isfinite(rows[:, 0])):
        raise TemporaryFailure("the answer holds bars without a time, or with other columns")
    return rows


def merged(pages: Sequence[np.ndarray]) -> np.ndarray:
    """All rows, oldest first. A bar that came twice counts once: as it came last."""
    rows = np.concatenate([np.empty((0, COLUMNS)), *pages])
    _, last = np.unique(rows[::-1, 0], return_index=True)
    return rows[len(rows) - 1 - last]
