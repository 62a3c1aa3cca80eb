"""Bars of a feed, asked for when they should be complete."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rookery.console import say
from rookery.data.dataset import Bars, Dataset
from rookery.data.feeds.download import no_progress
from rookery.data.feeds.fetch import Download, bars_of, fetch, opened_feed
from rookery.data.feeds.pages import SETTLE_SECONDS, Feed
from rookery.data.feeds.retries import FeedDown
from rookery.deploy.paper.arrived_bars import Arrival, all_times, joined, last_time
from rookery.deploy.paper.kill_limits import KillLimits
from rookery.errors import DataError, KillSwitch

OVERLAP = 3  # known bars that are asked for again, in case one came late


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
            return replace(grown, bars=tuple(_until(bars, newest - 1) for bars in grown.bars))
        return grown

    def _check_stale(self, last: int, feed: Feed) -> None:
        try:
            self._limits.check_gap(last, feed.clock.now(), self._wanted.timeframe, self._calendar, arrived=False)
        except KillSwitch as error:
            if self._failure:
                raise KillSwitch(f"{error}: {self._failure}", "missing-feed") from None
            raise


def _until(bars: Bars, end: int) -> Bars:
    return bars.rows(bars.times <= end)
