"""From the name of a source to a dataset: which feed, which symbols, which period."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from rookery.console import printable, say
from rookery.data.calendars import sessions, timeframe_name, timeframe_seconds
from rookery.data.dataset import Bars, Dataset
from rookery.data.feeds.alpaca_feed import AlpacaFeed, is_pair
from rookery.data.feeds.ccxt_feed import CcxtFeed
from rookery.data.feeds.download import Progress, download, no_progress
from rookery.data.feeds.feed import Feed, Series
from rookery.errors import DataError

DAY = 86_400
HOURS = ("regular", "all")
STOCK_CALENDAR = "XNYS"
CCXT = "ccxt:"


@dataclass(frozen=True)
class Download:
    """What was or will be downloaded, as a dataset's history says it.

    Attributes:
        source: "alpaca", or "ccxt:" and the name of an exchange.
        timeframe: Length of a bar in seconds.
        feed: Which of the source's feeds; "" for its usual one.
        adjustment: How prices are changed for splits and dividends.
        hours: "regular": bars of stocks in the sessions of the exchange; "all": before and after as well.
    """

    source: str
    symbols: tuple[str, ...]
    timeframe: int
    feed: str = ""
    adjustment: str = "raw"
    hours: str = "regular"

    def __post_init__(self) -> None:
        if not self.symbols:
            raise DataError("no symbol is given: name some, such as BTC/USD,ETH/USD")
        twice = [symbol for symbol in self.symbols if self.symbols.count(symbol) > 1]
        if twice:
            raise DataError(f"the symbol {twice[0]!r} is given twice")
        if self.hours not in HOURS:
            raise DataError(f"hours should be {' or '.join(HOURS)}, got {self.hours!r}")
        pairs = [symbol for symbol in self.symbols if is_pair(symbol)]
        if self.source == "alpaca" and 0 < len(pairs) < len(self.symbols):
            raise DataError(
                f"{pairs[0]} is traded around the clock, and the stocks are not: download them to different folders"
            )

    @property
    def is_of_stocks(self) -> bool:
        return self.source == "alpaca" and not is_pair(self.symbols[0])

    @property
    def calendar(self) -> str:
        return STOCK_CALENDAR if self.is_of_stocks else "24/7"

    def series(self) -> list[Series]:
        usual = "" if self.source != "alpaca" else "sip" if self.is_of_stocks else "us"
        feed, adjustment = self.feed or usual, self.adjustment
        return [Series(self.source, symbol, self.timeframe, feed, adjustment) for symbol in self.symbols]

    def history(self, start: int, end: int | None) -> dict[str, Any]:
        """The entry of a dataset's history, from which `download_of` makes this again."""
        name = timeframe_name(self.timeframe)
        period = f"--start {time_name(start)}" + (f" --end {time_name(end)}" if end is not None else "")
        return {
            "command": f"fetch {self.source} --symbols {','.join(self.symbols)} --timeframe {name} {period}",
            "source": self.source, "symbols": list(self.symbols), "timeframe": name, "feed": self.series()[0].feed,
            "adjustment": self.adjustment, "hours": self.hours, "at": time_name(int(datetime.now(UTC).timestamp())),
        }  # fmt: skip


def fetch(
    wanted: Download, start: int, end: int | None = None, refresh: bool = False, progress: Progress = no_progress
) -> Dataset:
    """Download bars.

    Args:
        start: Bars that start then or later, in seconds since 1970.
        end: Bars that are complete then; None: now.
        refresh: Whether bars that are kept from an earlier download are downloaded again.
    """
    _check_period(start, end)
    with opened_feed(wanted.source) as feed:
        series = wanted.series()
        feed.check(series)
        fresh_until = math.inf if refresh else -math.inf
        found = [bars_of(feed, wanted, one, start, end, fresh_until, progress) for one in series]
    for one, bars in zip(series, found, strict=True):
        _refuse_empty(feed, one, bars)
        _mention_late_start(feed, one, bars, start)
    return Dataset(tuple(found), wanted.timeframe, wanted.calendar, history=(wanted.history(start, end),))


def bars_of(
    feed: Feed, wanted: Download, series: Series, start: int, end: int | None, fresh_until: float, progress: Progress
) -> Bars:
    """The bars of one symbol, in the hours that are wanted."""
    last = int(feed.clock.now()) if end is None else end
    bars = download(feed, series, start, last, progress, fresh_until)
    if wanted.calendar == "24/7" or wanted.hours == "all" or wanted.timeframe >= DAY or not len(bars):
        return bars
    return bars.rows(_in_sessions(bars.times, wanted.timeframe, wanted.calendar))


@contextmanager
def opened_feed(source: str) -> Iterator[Feed]:
    """The feed of a source, closed in the end."""
    feed: Feed
    if source == "alpaca":
        feed = AlpacaFeed()
    elif source.startswith(CCXT) and source != CCXT:
        feed = CcxtFeed(source.removeprefix(CCXT))
    else:
        raise DataError(
            f"{printable(source)!r} is not a source of bars: there is alpaca, and ccxt:NAME for an exchange, such as "
            "ccxt:kraken"
        )
    try:
        yield feed
    finally:
        feed.close()


def download_of(history: Sequence[Mapping[str, Any]], symbol: str) -> Download | None:
    """The last download of a symbol in a history; None if there is none."""
    for entry in reversed(history):
        source, symbols = str(entry.get("source")), entry.get("symbols")
        if (source == "alpaca" or source.startswith(CCXT)) and isinstance(symbols, list) and symbol in symbols:
            texts = {name: str(entry[name]) for name in ("feed", "adjustment", "hours") if name in entry}
            return Download(source, (symbol,), timeframe_seconds(str(entry.get("timeframe"))), **texts)
    return None


def parse_time(text: str, name: str) -> int:
    """Seconds since 1970 of a date or a time, in UTC if it names no zone.

    >>> parse_time("2024-01-01", "--start"), parse_time("2024-01-01 02:00+02:00", "--start")
    (1704067200, 1704067200)
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise DataError(
            f"{name} should be a date or a time such as 2024-01-31 or 2024-01-31T12:00, got {text!r}"
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def time_name(seconds: int) -> str:
    """
    >>> time_name(1_704_067_200)
    '2024-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _check_period(start: int, end: int | None) -> None:
    now = datetime.now(UTC).timestamp()
    if start >= now:
        raise DataError(f"the start {time_name(start)} has not come yet: give an earlier one")
    if end is not None and end <= start:
        raise DataError(f"the end {time_name(end)} is not after the start {time_name(start)}")


def _in_sessions(times: np.ndarray, timeframe: int, calendar: str) -> np.ndarray:
    """Which bars have at least a part in a session: a bar of an hour may begin before it."""
    opens, closes, _ = sessions(calendar, int(times[0]) - timeframe, int(times[-1]))
    session = np.searchsorted(opens, times, side="left") - 1  # the last one that has begun when the bar is complete
    return (session >= 0) & (times - timeframe < closes[np.maximum(session, 0)])


def _refuse_empty(feed: Feed, series: Series, bars: Bars) -> None:
    """A symbol without any bar is a mistake: Alpaca answers so for a symbol that it does not know."""
    if not len(bars):
        raise DataError(
            f"{feed.who} has no bars of {series.symbol} in this period: check the symbol (written as BTC/USD or AAPL), "
            "--start and --end" + (" and --hours" if series.source == "alpaca" and not is_pair(series.symbol) else "")
        )


def _mention_late_start(feed: Feed, series: Series, bars: Bars, start: int) -> None:
    """An exchange that keeps the last bars only answers as if there were no others."""
    if bars.times[0] - start > max(7 * DAY, 2 * series.timeframe) or (
        series.feed == "" and bars.times[0] - start > 2 * series.timeframe
    ):
        say(f"{feed.who}: the first bar of {series.symbol} is of {time_name(int(bars.times[0]))}: it has no older ones")
