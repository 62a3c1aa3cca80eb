"""Where the bars of paper trading come from: a feed, asked when they should be complete, or a file that is replayed;
how they are joined, and when the kill-switch stops because of them."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from rookery.console import say
from rookery.data.calendars import closures, timeframe_name
from rookery.data.dataset import Bars, Dataset
from rookery.data.feeds.download import no_progress
from rookery.data.feeds.feed import SETTLE_SECONDS, Feed, FeedDown
from rookery.data.feeds.fetch import Download, bars_of, fetch, opened_feed, time_name
from rookery.errors import DataError, KillSwitch, OptionError

OVERLAP = 3  # known bars that are requested again, in case one came late


class Arrival(NamedTuple):
    """Bars that have become complete.

    Attributes:
        dataset: All bars so far and maybe later ones; None if there are no others than before.
        times: When the new bars were complete, oldest first.
        is_live: Whether orders for all but the last of them would be too late.
    """

    dataset: Dataset | None
    times: tuple[int, ...]
    is_live: bool


class BarSource(Protocol):
    """Where bars come from."""

    def arrivals(self, known: Dataset) -> Iterator[Arrival]:
        """Bars after the known ones, as they come. A KillSwitch if they do not."""


def joined(known: Dataset, added: Dataset) -> Dataset:
    """Known bars, and those of `added` that are newer than all of them."""
    missing = [name for name in known.bars[0].columns if name not in added.column_names]
    if missing:
        raise DataError(f"{added.place or 'the data'}: the column {missing[0]!r} is missing, which earlier bars have")
    later = added.select(known.symbols, start=last_time(known))
    return replace(known, bars=tuple(map(_concatenated, known.bars, later.bars)))


def last_time(dataset: Dataset) -> int:
    """When the newest bar of any symbol is complete."""
    return max(int(bars.times[-1]) for bars in dataset.bars if len(bars))


def all_times(dataset: Dataset) -> np.ndarray:
    """When any symbol has a bar, each time once."""
    return np.unique(np.concatenate([bars.times for bars in dataset.bars]))


def bars_at(dataset: Dataset, time: int) -> dict[str, list[float | None]]:
    """The bars that are complete at a time, by symbol: the numbers of their columns; None for one that is missing."""
    found = {}
    for bars in dataset.bars:
        row = int(np.searchsorted(bars.times, time))
        if row < len(bars) and bars.times[row] == time:
            numbers = [float(column[row]) for column in bars.columns.values()]
            found[bars.symbol] = [number if math.isfinite(number) else None for number in numbers]
    return found


def with_lines(history: Dataset, lines: Sequence[Mapping[str, Any]]) -> Dataset:
    """The history, and the bars of lines of a log."""
    rows: dict[str, list[tuple[int, list[float | None]]]] = {symbol: [] for symbol in history.symbols}
    for line in lines:
        for symbol, values in line["bars"].items():
            rows[symbol].append((line["time"], values))
    added = []
    for bars in history.bars:
        times = np.array([time for time, _ in rows[bars.symbol]], np.int64)
        values = np.array([values for _, values in rows[bars.symbol]], np.float64).reshape(-1, len(bars.columns))
        columns = {name: values[:, number] for number, name in enumerate(bars.columns)}
        added.append(Bars(bars.symbol, times, columns))
    return replace(history, bars=tuple(map(_concatenated, history.bars, added)))


def _concatenated(one: Bars, other: Bars) -> Bars:
    columns = {name: np.concatenate([one[name], other[name]]) for name in one.columns}
    return Bars(one.symbol, np.concatenate([one.times, other.times]), columns)


@dataclass(frozen=True)
class KillLimits:
    """The limits of the kill-switch.

    Attributes:
        max_drawdown: The part of its highest value that an account may lose; 1: all of it.
        stale: Bars that may be missing while the market is open; 0: any number.
        clock_skew: Seconds by which this machine's clock and the feed's may differ, and by which a bar may be from the
            future; 0: any number.
    """

    max_drawdown: float = 0.2
    stale: int = 3
    clock_skew: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.max_drawdown <= 1:
            raise OptionError(f"max_drawdown should be a part of the account, such as 0.2, got {self.max_drawdown!r}")
        if self.stale < 0 or self.clock_skew < 0 or not math.isfinite(self.clock_skew):
            raise OptionError(f"stale and clock_skew should be >= 0, got {self.stale!r} and {self.clock_skew!r}")

    def check_gap(self, last: int, now: float, timeframe: int, calendar: str, arrived: bool) -> None:
        """Stop if no bar has come for too long. `arrived`: one comes at `now`."""
        missing = open_seconds(last, now, calendar) / timeframe - (1 if arrived else 0)
        if self.stale and missing > self.stale + (0 if arrived else 1):
            raise KillSwitch(
                f"no bar of {timeframe_name(timeframe)} since {time_name(last)}, while the market was open for "
                f"{missing:.0f} of them ({self.stale} are allowed)",
                "stale-data",
            )

    def check_future(self, bar: int) -> None:
        """Stop if a bar is complete only in the future."""
        ahead = bar - time.time()
        if self.clock_skew and ahead > self.clock_skew:
            raise KillSwitch(
                f"a bar is complete at {time_name(bar)}, which is {ahead:.0f} s in the future by this machine's clock",
                "clock-skew",
            )

    def check_clock(self, ahead: float | None, who: str) -> None:
        """Stop if this machine's clock differs from the feed's."""
        if self.clock_skew and ahead is not None and abs(ahead) > self.clock_skew:
            side = "ahead of" if ahead > 0 else "behind"
            raise KillSwitch(
                f"this machine's clock is {abs(ahead):.0f} s {side} that of {who} ({self.clock_skew:g} s are allowed)",
                "clock-skew",
            )


def open_seconds(start: float, end: float, calendar: str) -> float:
    """The seconds between two times at which the market is open.

    >>> open_seconds(0, 600, "24/7")
    600.0
    """
    closed = closures(calendar, int(start), int(end))
    overlap = np.minimum(closed[:, 1], end) - np.maximum(closed[:, 0], start)
    return float(end - start - np.maximum(overlap, 0).sum())


class FeedBars:
    """Bars of Alpaca or of an exchange. Nothing is ordered there: the kernel simulates the account.

    A bar that all symbols have counts at once. One that some symbols lack counts when the next one is due: what comes
    later than that for the same time is omitted.

    Args:
        wanted: The source, symbols and timeframe.
        calendar: When the market is open.
        limits: When to stop.
        poll: Seconds between two requests while a bar is late; None: a twentieth of the timeframe, from 1 to 10.
    """

    def __init__(self, wanted: Download, calendar: str, limits: KillLimits, poll: float | None = None) -> None:
        self._wanted, self._calendar, self._limits = wanted, calendar, limits
        self._poll = min(max(wanted.timeframe / 20, 1.0), 10.0) if poll is None else poll
        self._failure = ""

    def history(self, bars: int) -> Dataset:
        """The last bars, to compute features from."""
        start = int(time.time()) - (bars + 1) * self._wanted.timeframe
        found = fetch(self._wanted, start, refresh=True)
        return replace(found, calendar=self._calendar)

    def arrivals(self, known: Dataset) -> Iterator[Arrival]:
        with opened_feed(self._wanted.source) as feed:
            while True:
                last = last_time(known)
                self._wait_until(last + self._wanted.timeframe + SETTLE_SECONDS, feed)
                found = self._asked(feed, last)
                self._limits.check_clock(feed.clock.ahead, feed.who)
                grown = known if found is None else self._counted(joined(known, found), last, feed.clock.now())
                times = all_times(grown)
                new = times[times > last]
                if len(new):
                    known, self._failure = grown, ""
                    yield Arrival(known, tuple(new.tolist()), True)
                    continue
                self._check_stale(last, feed)
                time.sleep(self._poll)

    def _wait_until(self, due: float, feed: Feed) -> None:
        """Sleep until the next bar should be there; in short naps, so that a clock that is set counts."""
        while (left := due - feed.clock.now()) > 0:
            time.sleep(min(left, 30.0))

    def _asked(self, feed: Feed, last: int) -> Dataset | None:
        """What the feed has since the last bar; None if it does not answer, which it may do again."""
        start = last - OVERLAP * self._wanted.timeframe
        try:
            found = [
                bars_of(feed, self._wanted, one, start, None, np.inf, no_progress) for one in self._wanted.series()
            ]
        except FeedDown as error:
            self._failure = str(error)
            say(f"{error}; trying again")
            return None
        except DataError as error:
            raise KillSwitch(str(error), "missing-feed") from None
        return Dataset(tuple(found), self._wanted.timeframe, self._calendar)

    def _counted(self, grown: Dataset, last: int, now: float) -> Dataset:
        """Without the newest bar, if some symbols lack it and it may still come."""
        newest = last_time(grown)
        lacks = any(not len(bars) or bars.times[-1] < newest for bars in grown.bars)
        if newest > last and lacks and now < newest + self._wanted.timeframe:
            return replace(grown, bars=tuple(bars.rows(bars.times < newest) for bars in grown.bars))
        return grown

    def _check_stale(self, last: int, feed: Feed) -> None:
        try:
            self._limits.check_gap(last, feed.clock.now(), self._wanted.timeframe, self._calendar, arrived=False)
        except KillSwitch as error:
            if self._failure:
                raise KillSwitch(f"{error}: {self._failure}", "missing-feed") from None
            raise


class FileBars:
    """Replays bars. A bar that nobody has traded on yet has not come yet, however long that took.

    Args:
        dataset: All bars of the file.
        speed: How many times faster than in the market; None: as fast as possible.
    """

    def __init__(self, dataset: Dataset, speed: float | None) -> None:
        self.dataset, self._speed = dataset, speed

    def arrivals(self, known: Dataset) -> Iterator[Arrival]:
        """Features are computed once, on all bars: a row of them depends on the rows before it alone."""
        last = last_time(known)
        complete = joined(known, self.dataset)
        given: Dataset | None = complete
        due = time.monotonic()
        times = all_times(complete)
        for moment in times[times > last].tolist():
            if self._speed is not None:
                due += min(moment - last, complete.timeframe) / self._speed
                time.sleep(max(0.0, due - time.monotonic()))
            yield Arrival(given, (moment,), False)
            given, last = None, moment


def parse_speed(text: str) -> float | None:
    """
    >>> parse_speed("60x"), parse_speed("0.5"), parse_speed("max")
    (60.0, 0.5, None)
    """
    if text.strip().lower() == "max":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)x?", text.strip().lower())
    if found is None or float(found[1]) == 0:
        raise OptionError(f"speed should be a factor such as 60x, or max, got {text!r}")
    return float(found[1])
