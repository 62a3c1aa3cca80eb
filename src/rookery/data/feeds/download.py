"""Download bars, page by page: what is finished is kept, so that an interrupted download continues."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rookery.console import say
from rookery.data.dataset import BAR_COLUMNS, Bars
from rookery.data.feeds.cache import ChunkCache
from rookery.data.feeds.pages import SETTLE_SECONDS, Feed, Series, merged
from rookery.data.feeds.retries import with_retries
from rookery.errors import DataError

SLACK = 1 - 1e-6  # adjusted prices are rounded
Progress = Callable[[str, float], None]  # the symbol, and which part of its period is done


def no_progress(symbol: str, part: float) -> None:
    """Show nothing."""


def download(
    feed: Feed, series: Series, start: int, end: int, progress: Progress = no_progress, fresh_until: float = -math.inf
) -> Bars:
    """The bars of a symbol that start at `start` or later and are complete at `end`, and now.

    Args:
        fresh_until: Bars that start before this time are downloaded even if they are kept from before.
    """
    cache = ChunkCache(series, fresh_until)
    pages, at, more = [], start, None
    now = feed.clock.now()
    progress(series.symbol, 0.0)
    while at < end and at < now:
        found = cache.find(at)
        if found is not None:
            (rows, upto), more = found, None
        else:
            rows, upto, more = _asked(feed, series, at, end, more)
            cache.store(at, upto, rows, feed.clock.now())
        pages.append(rows)
        at = upto
        progress(series.symbol, min((at - start) / max(min(end, now) - start, 1), 1.0))
    rows = merged(pages)
    return as_bars(feed, series, rows[(rows[:, 0] >= start) & (rows[:, 0] < end)], end, now)


def _asked(feed: Feed, series: Series, at: int, end: int, more: Any) -> tuple[np.ndarray, int, Any]:
    page = with_retries(lambda: feed.page(series, at, end, more), feed.who, feed.keys)
    if page.upto <= at and page.more in (None, more):  # it would be asked the same for ever
        raise DataError(f"{feed.who} sends the same page of {series.symbol} again and again: try again later")
    return page.rows, max(page.upto, at), page.more


def as_bars(feed: Feed, series: Series, rows: np.ndarray, end: float, now: float) -> Bars:
    """Bars with the times at which they are complete, without those that are not, and without damaged ones."""
    starts = rows[:, 0].astype(np.int64)
    times = feed.complete_at(series, starts)
    now = min(now, feed.clock.now())  # the clock may have learned that it is fast
    whole = times <= min(end, now - SETTLE_SECONDS)
    usable = _usable(rows)
    if lost := int(np.count_nonzero(whole & ~usable)):
        say(f"{feed.who}: {lost} bars of {series.symbol} have no price or an impossible one and are omitted, as gaps")
    kept = rows[whole & usable]
    columns = {name: np.ascontiguousarray(kept[:, 1 + i]) for i, name in enumerate(BAR_COLUMNS)}
    return Bars(series.symbol, times[whole & usable], columns)


def _usable(rows: np.ndarray) -> np.ndarray:
    """Which bars have prices and a volume that can be true."""
    opened, high, low, close, volume = rows[:, 1:].T
    finite = np.all(np.isfinite(rows), axis=1)
    with np.errstate(invalid="ignore"):
        inside = (low > 0) & (low * SLACK <= np.minimum(opened, close)) & (np.maximum(opened, close) <= high / SLACK)
        return finite & inside & (volume >= 0)
