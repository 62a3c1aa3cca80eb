"""Download bars, page by page: finished pages are kept, so that an interrupted download continues."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import say
from rookery.data.dataset import BAR_COLUMNS, Bars
from rookery.data.feeds.feed import COLUMNS, SETTLE_SECONDS, Feed, Series, merged, with_retries
from rookery.errors import DataError
from rookery.user_dirs import cache_folder, read_own, write_own

SLACK = 1 - 1e-6  # adjusted prices are rounded
Progress = Callable[[str, float], None]  # the symbol, and which part of its period is done
FORMAT = 1
FOLDER = "feeds"
DAY, CLOCK_CHANGE = 86_400, 3600
SETTLED_SECONDS = DAY  # younger bars may still be corrected by the feed: they are not kept
ADJUSTED_SECONDS = 43_200  # adjusted prices of the past change with every split and dividend
NAME = re.compile(r"(-?\d{1,12})-to-(-?\d{1,12})\.bars")


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
    return _as_bars(feed, series, rows[(rows[:, 0] >= start) & (rows[:, 0] < end)], end, now)


def _asked(feed: Feed, series: Series, at: int, end: int, more: Any) -> tuple[np.ndarray, int, Any]:
    page = with_retries(lambda: feed.page(series, at, end, more), feed.who, feed.keys)
    if page.upto <= at and page.more in (None, more):  # the same page would be requested for ever
        raise DataError(f"{feed.who} sends the same page of {series.symbol} again and again: try again later")
    return page.rows, max(page.upto, at), page.more


def _as_bars(feed: Feed, series: Series, rows: np.ndarray, end: float, now: float) -> Bars:
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


class ChunkCache:
    """The finished parts of one series.

    Args:
        fresh_until: Bars that start before this time are not taken from stored parts.
    """

    def __init__(self, series: Series, fresh_until: float = -math.inf) -> None:
        self._key = asdict(series)
        base = cache_folder("bars")
        self._folder = None if base is None else base / FOLDER / _folder_name(series)
        self._adjusted = series.adjustment != "raw"
        # No other bar starts before the next step; days are shorter when clocks are put forward.
        self._step = series.timeframe - (CLOCK_CHANGE if series.timeframe >= DAY else 0)
        self._fresh_until = fresh_until
        names = [] if self._folder is None else _names(self._folder)
        self._periods = {(int(match[1]), int(match[2])) for match in map(NAME.fullmatch, names) if match}

    def find(self, start: int) -> tuple[np.ndarray, int] | None:
        """The stored bars from `start` on and the time up to which they reach; None if there are none."""
        if start < self._fresh_until:
            return None
        while fitting := [period for period in self._periods if period[0] <= start < period[1]]:
            period = max(fitting, key=lambda fit: fit[1])
            rows = self._read(period)
            if rows is not None:
                return rows[rows[:, 0] >= start], period[1]
            self._periods.discard(period)
        return None

    def store(self, start: int, upto: int, rows: np.ndarray, now: float) -> None:
        """Keep the bars that start in [start, upto), as far as they are old enough. The time after the last bar is not
        kept: the feed may have been unable to answer."""
        rows = rows[(rows[:, 0] >= start) & (rows[:, 0] < min(upto, now - SETTLED_SECONDS))]
        if self._folder is None or not len(rows):
            return
        upto = min(upto, int(rows[:, 0].max()) + self._step)
        data = np.ascontiguousarray(rows, "<f8").tobytes()
        about = {"format": FORMAT, "series": self._key, "period": [start, upto], "rows": len(rows)}
        about |= {"saved": int(time.time())}
        head = json.dumps(about | {"sha256": _checksum(about, data)}).encode()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._remove_overlapping(start, upto)
            write_own(self._path((start, upto)), head + b"\n" + data)
        except OSError as error:
            say(f"{self._folder} cannot be written ({error.strerror}): this download cannot be continued later")
            self._folder = None
            return
        self._periods.add((start, upto))

    def _remove_overlapping(self, start: int, upto: int) -> None:
        """Bars that are downloaded again replace all that is stored of the period."""
        for old in [old for old in self._periods if start < self._fresh_until and old[0] < upto and start < old[1]]:
            self._periods.discard(old)
            self._path(old).unlink(missing_ok=True)

    def _path(self, period: tuple[int, int]) -> Path:
        assert self._folder is not None
        return self._folder / f"{period[0]}-to-{period[1]}.bars"

    def _read(self, period: tuple[int, int]) -> np.ndarray | None:
        """The rows of a stored part; None if it is damaged, outdated, or of something else."""
        if self._folder is None:
            return None
        path = self._path(period)
        try:
            head, _, data = read_own(path).partition(b"\n")
            about = json.loads(head)
            checksum = about.pop("sha256")
            same = [about[name] for name in ("format", "series", "period")] == [FORMAT, self._key, list(period)]
            good = same and checksum == _checksum(about, data)
            fresh = not self._adjusted or time.time() - about["saved"] < ADJUSTED_SECONDS
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            good = fresh = False
        if good and fresh:
            return np.frombuffer(data, "<f8").reshape(about["rows"], COLUMNS)
        if not good:
            say(f"{path} is damaged: its bars are downloaded again")
        with suppress(OSError):
            path.unlink()
        return None


def _checksum(about: dict[str, object], data: bytes) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode() + data).hexdigest()


def _folder_name(series: Series) -> str:
    """A readable name, with a hash: two symbols may differ only in letters that a file name cannot hold."""
    key = json.dumps(asdict(series), sort_keys=True)
    readable = re.sub(r"[^A-Za-z0-9]+", "-", f"{series.source}-{series.symbol}-{series.timeframe}")[:60]
    return f"{readable}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []
