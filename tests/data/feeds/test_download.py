"""Downloads that are interrupted, and what is kept of them."""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from data.feeds.feed_server import START, FeedServer, bar, status
from rookery.data.dataset import Bars
from rookery.data.feeds.alpaca_feed import AlpacaFeed
from rookery.data.feeds.download import ADJUSTED_SECONDS, ChunkCache, download
from rookery.data.feeds.feed import Series, rows_from
from rookery.data.feeds.fetch import opened_feed
from rookery.errors import DataError, MissingExtra

FIVE = 300
BTC = Series("alpaca", "BTC/USD", FIVE, "us")
ADJUSTED = Series("alpaca", "AAPL", FIVE, "iex", "split")


@pytest.fixture
def btc(server: FeedServer) -> FeedServer:
    server.symbols["BTC/USD"] = START, START + 100 * FIVE
    server.page = 10
    return server


def fetched(first: int = 0, last: int = 100, **options: float) -> Bars:
    return download(AlpacaFeed(), BTC, START + first * FIVE, START + last * FIVE, **options)


def same(one: Bars, other: Bars) -> bool:
    return one.times.tolist() == other.times.tolist() and all(
        (one[name] == other[name]).all() for name in other.columns
    )


@pytest.mark.parametrize("how", ["server", "interrupt"])
def test_an_interrupted_download_continues_where_it_stopped(
    btc: FeedServer, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    btc.faults = [None] * 6 + [status(500)] * 5
    if how == "interrupt":
        monkeypatch.setattr("rookery.data.feeds.feed.sleep", interrupt)
    with pytest.raises(DataError if how == "server" else KeyboardInterrupt):
        fetched()
    btc.requests.clear()
    btc.faults.clear()
    bars = fetched()
    assert bars.times.tolist() == [START + i * FIVE for i in range(1, 101)]
    assert len(btc.requests) == 4
    assert btc.requests[0]["start"] > "2024-01-01T04:55:00Z"  # sixty bars were there
    assert same(bars, fetched())
    assert len(btc.requests) == 4  # nothing was requested again
    assert same(bars, fetched(fresh_until=math.inf))
    assert len(btc.requests) == 14


def test_another_period_uses_the_parts_that_fit(btc: FeedServer) -> None:
    fetched(20, 60)
    btc.requests.clear()
    bars = fetched(15, 65)
    assert bars.times.tolist() == [START + i * FIVE for i in range(16, 66)]
    assert len(btc.requests) == 2  # one before and one after


def test_a_damaged_part_is_downloaded_again(btc: FeedServer, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    bars = fetched()
    files = sorted(cache.rglob("*.bars"))
    assert len(files) == 10
    whole = files[0].read_bytes()
    files[0].write_bytes(whole[:-8] + b"\0" * 8)
    files[1].write_bytes(whole)  # a part of another period, in this one's place
    files[2].write_bytes(b"")
    files[3].write_bytes(b"{}\n")
    files[4].write_bytes(files[4].read_bytes()[:-3])
    files[5].chmod(0o666)  # anybody could have written it
    btc.requests.clear()
    assert same(bars, fetched())
    assert len(btc.requests) == 6
    assert caplog.text.count("is damaged") == 6
    assert same(bars, fetched())


def test_nothing_of_a_part_is_left_by_a_write_that_fails(
    btc: FeedServer, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert len(fetched()) == 100
    assert caplog.text.count("No space left") == 1
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_without_a_safe_folder_nothing_is_kept(btc: FeedServer, cache: Path) -> None:
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)
    assert len(fetched()) == 100
    assert list(cache.iterdir()) == []


def rows(first: int, count: int) -> np.ndarray:
    return rows_from([[first + i * FIVE, 1, 2, 0.5, 1, 9] for i in range(count)])


def test_bars_of_the_last_day_and_periods_without_bars_are_not_kept() -> None:
    """The feed may still correct them, or may have been unable to answer."""
    kept, now = ChunkCache(BTC), START + 2 * 86_400
    kept.store(START, START + 86_400, rows(START, 288), now)
    kept.store(START + 86_400, now, rows(START + 86_400, 288), now)
    kept.store(START - 86_400, START, rows(START, 0), now)
    found = ChunkCache(BTC).find(START + 3 * FIVE)
    assert found is not None
    assert found[0][:, 0].tolist() == [START + i * FIVE for i in range(3, 288)]
    assert found[1] == START + 86_400
    kept.store(START - 3000, START, rows(START - 3000, 3), now)  # the feed had no later ones: it may have them tomorrow
    assert ChunkCache(BTC).find(START - 3000 + 3 * FIVE) is None
    assert ChunkCache(BTC).find(START + 86_400) is None
    assert ChunkCache(BTC).find(START - 1) is None


def test_bars_that_are_downloaded_again_replace_the_stored_ones(btc: FeedServer) -> None:
    """Also where the parts are cut in another way."""
    btc.page = 30
    fetched()
    btc.page, btc.revised["BTC/USD"] = 20, 0
    again = fetched(0, 70, fresh_until=math.inf)
    assert same(again, fetched(0, 70))
    btc.revised.clear()
    assert fetched()["open"][75] == bar(START + 75 * FIVE)[0]


@pytest.mark.parametrize("change", [{"symbol": "BTC-USD"}, {"feed": "iex"}, {"timeframe": 600}, {"adjustment": "all"},
                                    {"source": "ccxt:kraken"}])  # fmt: skip
def test_another_series_has_other_parts(change: dict[str, str]) -> None:
    ChunkCache(BTC).store(START, START + 3000, rows(START, 10), time.time())
    other = Series(**{**BTC.__dict__, **change})
    assert ChunkCache(other).find(START) is None
    assert ChunkCache(BTC).find(START) is not None


def test_adjusted_prices_are_kept_for_half_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """A split or a dividend changes the prices of the whole past."""
    ChunkCache(ADJUSTED).store(START, START + 3000, rows(START, 10), time.time())
    assert ChunkCache(ADJUSTED).find(START) is not None
    later = time.time() + ADJUSTED_SECONDS + 60
    monkeypatch.setattr("rookery.data.feeds.download.time.time", lambda: later)
    assert ChunkCache(ADJUSTED).find(START) is None


@pytest.mark.parametrize(("module", "source"), [("alpaca.common.rest", "alpaca"), ("ccxt", "ccxt:kraken")])
def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, module: str, source: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"pip install 'rookery\[market\]'"), opened_feed(source):
        pass
