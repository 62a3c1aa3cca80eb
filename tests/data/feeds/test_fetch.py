"""From the name of a source to a dataset."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from data.feeds.feed_server import START, FeedServer, bar
from rookery.data.calendars import timeframe_seconds
from rookery.data.checks import refuse_bad
from rookery.data.dataset import Dataset
from rookery.data.feeds.fetch import Download, download_of, fetch, parse_time, time_name
from rookery.errors import DataError

FIVE, DAY = 300, 86_400
COINS = Download("alpaca", ("ETH/USD", "BTC/USD"), FIVE)


@pytest.fixture
def coins(server: FeedServer) -> FeedServer:
    server.symbols["BTC/USD"] = START, START + 50 * FIVE
    server.symbols["ETH/USD"] = START + 10 * FIVE, START + 60 * FIVE
    return server


def test_a_dataset_says_where_it_came_from(coins: FeedServer) -> None:
    done: list[tuple[str, float]] = []
    data = fetch(COINS, START, START + 55 * FIVE, progress=lambda symbol, part: done.append((symbol, part)))
    assert (data.symbols, data.timeframe, data.calendar) == (("ETH/USD", "BTC/USD"), FIVE, "24/7")
    assert (len(data["BTC/USD"]), len(data["ETH/USD"])) == (50, 45)
    assert data["BTC/USD"]["open"][3] == bar(START + 3 * FIVE)[0]
    assert data["BTC/USD"].times[-1] == START + 50 * FIVE
    assert data["ETH/USD"].times[-1] == START + 55 * FIVE  # complete at the end
    (entry,) = data.history
    assert entry["command"].startswith("fetch alpaca --symbols ETH/USD,BTC/USD --timeframe 5m --start 2024-01-01T00")
    assert {name: entry[name] for name in ("source", "timeframe", "feed", "adjustment")} == {
        "source": "alpaca", "timeframe": "5m", "feed": "us", "adjustment": "raw"
    }  # fmt: skip
    assert download_of(data.history, "BTC/USD") == Download("alpaca", ("BTC/USD",), FIVE, "us")
    assert download_of(data.history, "DOGE/USD") is None
    assert done[0] == ("ETH/USD", 0.0) and done[-1] == ("BTC/USD", 1.0)
    refuse_bad(data)


@pytest.fixture
def apple(server: FeedServer, keys: tuple[str, str]) -> Download:
    server.symbols["AAPL"] = START, START + 3 * DAY
    return Download("alpaca", ("AAPL",), 3600, "iex", "split")


def assert_sessions(data: Dataset) -> None:
    """2024-01-02 and 03, from 14:30 to 21:00 UTC; New Year's Day has none."""
    assert [time_name(int(t)) for t in data["AAPL"].times] == [
        f"2024-01-0{day}T{hour}:00:00Z" for day in (2, 3) for hour in range(15, 22)
    ]
    assert data.calendar == "XNYS"


def test_stocks_are_in_the_sessions_of_the_exchange_unless_asked(
    apple: Download, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = START + np.array([1, 2]) * DAY + 14 * 3600 + 1800
    monkeypatch.setattr("rookery.data.feeds.fetch.sessions", lambda *_: (opens, opens + 23_400, None))
    assert_sessions(fetch(apple, START, START + 3 * DAY))
    whole = fetch(replace(apple, hours="all"), START, START + 3 * DAY)
    assert len(whole["AAPL"]) == 72
    assert download_of(whole.history, "AAPL") == replace(apple, hours="all")


@pytest.mark.slow
def test_the_sessions_are_those_of_new_york(apple: Download) -> None:
    """The package of calendars takes seconds to load."""
    data = fetch(apple, START, START + 3 * DAY)
    assert_sessions(data)
    refuse_bad(data)


def test_a_symbol_without_bars_is_refused_and_a_late_start_is_mentioned(
    coins: FeedServer, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DataError, match="alpaca has no bars of DOGE/USD in this period: check the symbol"):
        fetch(Download("alpaca", ("DOGE/USD",), FIVE), START)
    fetch(Download("alpaca", ("BTC/USD",), FIVE), START - 9 * DAY)
    assert "the first bar of BTC/USD is of 2024-01-01T00:05:00Z: it has no older ones" in caplog.text


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"source": "kraken"}, "'kraken' is not a source of bars: there is alpaca, and ccxt:NAME"),
        ({"source": "ccxt:"}, "is not a source of bars"),
        ({"symbols": ()}, "no symbol is given"),
        ({"symbols": ("BTC/USD", "BTC/USD")}, "'BTC/USD' is given twice"),
        ({"symbols": ("BTC/USD", "AAPL")}, "traded around the clock, and the stocks are not"),
        ({"hours": "some"}, "hours should be regular or all, got 'some'"),
    ],
)
def test_what_cannot_be_downloaded_is_refused(server: FeedServer, change: dict[str, object], problem: str) -> None:
    options = {"source": "alpaca", "symbols": ("BTC/USD",), "timeframe": FIVE, **change}
    with pytest.raises(DataError, match=problem):
        fetch(Download(**options), START)  # type: ignore[arg-type]
    assert server.requests == []


def test_periods_are_checked(server: FeedServer) -> None:
    with pytest.raises(DataError, match="the end 2023-12-31T23:55:00Z is not after the start 2024-01-01T00:00:00Z"):
        fetch(COINS, START, START - FIVE)
    with pytest.raises(DataError, match="has not come yet"):
        fetch(COINS, int(time.time()) + DAY)
    assert server.requests == []


def test_times_and_timeframes_are_read() -> None:
    assert parse_time(" 2024-01-01T00:00:00Z", "--start") == parse_time("2023-12-31 19:00-05:00", "--start") == START
    for text in ("yesterday", "01.02.2024", "", "2024-13-01"):
        with pytest.raises(DataError, match="--end should be a date or a time such as 2024-01-31"):
            parse_time(text, "--end")
    assert timeframe_seconds("60m") == 3600
    for text in ("1M", "M", "3M"):
        with pytest.raises(DataError, match="months"):
            timeframe_seconds(text)
