"""Bars from exchanges by ccxt, against a server that answers as Binance's does. Importing ccxt takes seconds: all but
one of these tests are slow ones."""

from __future__ import annotations

import logging
import math
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.feeds.feed_server import START, FeedServer, answer, bar, drop, status
from rookery.data.dataset import Bars
from rookery.data.feeds import ccxt_feed
from rookery.data.feeds.ccxt_feed import CcxtFeed
from rookery.data.feeds.download import download
from rookery.data.feeds.feed import Series
from rookery.data.feeds.fetch import Download, fetch
from rookery.data.feeds.update import update
from rookery.data.storage import read, write
from rookery.errors import DataError

BTC = Series("ccxt:binance", "BTC/USDT", 300)
FIVE = 300
COUNT = 2500


@pytest.fixture
def binance(server: FeedServer, monkeypatch: pytest.MonkeyPatch) -> FeedServer:
    """Every address of ccxt's Binance leads to the server."""
    server.symbols["BTC/USDT"] = START, START + COUNT * FIVE
    opened = ccxt_feed.open_exchange

    def open_here(name: str) -> Any:
        exchange = opened(name)
        paths = {"public": "/api/v3", "private": "/api/v3"}
        exchange.urls["api"] = {key: server.address + paths.get(key, f"/{key}") for key in exchange.urls["api"]}
        exchange.rateLimit = 1  # milliseconds
        return exchange

    monkeypatch.setattr(ccxt_feed, "open_exchange", open_here)
    return server


def fetched(start: int = START, count: int = COUNT, series: Series = BTC, **options: Any) -> Bars:
    feed = CcxtFeed(series.source.removeprefix("ccxt:"))
    try:
        feed.check([series])
        return download(feed, series, start, start + count * FIVE, **options)
    finally:
        feed.close()


def klines(server: FeedServer) -> list[dict[str, Any]]:
    return [asked for asked in server.requests if asked["path"] == "/api/v3/klines"]


def assert_whole(bars: Bars) -> None:
    starts = [START + i * FIVE for i in range(COUNT)]
    assert bars.times.tolist() == [start + FIVE for start in starts]
    assert np.column_stack(list(bars.columns.values())).tolist() == [bar(start) for start in starts]


@pytest.mark.slow
def test_pages_are_joined_kept_and_repeated_after_faults(binance: FeedServer, waits: list[float]) -> None:
    feed = CcxtFeed("binance")
    feed.check([BTC])
    binance.faults = [None, status(429, {"code": -1003, "msg": "Too much request weight used"}, Retry_After="5"), drop]
    bars = download(feed, BTC, START, START + COUNT * FIVE)
    assert_whole(bars)
    assert waits == [5.0, 2.0]
    assert klines(binance)[0]["startTime"] == str(START * 1000)
    assert len(klines(binance)) == 5  # three pages of a thousand, and two that failed
    assert download(feed, BTC, START, START + COUNT * FIVE).times.tolist() == bars.times.tolist()
    assert len(klines(binance)) == 5
    with pytest.raises(DataError, match="binance has no symbol 'BTC/USD': did you mean BTC/USDT"):
        feed.check([Series("ccxt:binance", "BTC/USD", 300)])
    with pytest.raises(DataError, match=r"binance has no bars of 7m: it has .*1m, 3m, 5m"):
        feed.check([Series("ccxt:binance", "BTC/USDT", 420)])
    feed.close()


FAULTS = {
    "500": (status(500, b"<html>oops</html>"), 1.0),
    "502": (status(502), 1.0),
    "503": (status(503, b"", Retry_After="2"), None),
    "418": (status(418, {"code": -1003, "msg": "Way too many requests; IP banned"}, Retry_After="30"), 30.0),
    "no JSON": (lambda handler: answer(handler, b"[[170406"), 1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_followed_by_another_attempt(binance: FeedServer, waits: list[float], name: str) -> None:
    feed = CcxtFeed("binance")
    feed.check([BTC])
    binance.faults = [None, FAULTS[name][0]]
    assert_whole(download(feed, BTC, START, START + COUNT * FIVE))
    assert len(waits) == 1 and FAULTS[name][1] in (None, waits[0])


@pytest.mark.slow
@pytest.mark.parametrize("body", [{"surprise": 1}, [[None, None]], [], {"result": []}])
def test_an_answer_that_ccxt_makes_no_bars_of_is_asked_for_again(binance: FeedServer, body: Any) -> None:
    """Else a thousand bars would be missing without a word."""
    feed = CcxtFeed("binance")
    feed.check([BTC])
    binance.faults = [None, lambda handler: answer(handler, body)]
    assert_whole(download(feed, BTC, START, START + COUNT * FIVE))
    assert len(klines(binance)) == 4


REFUSALS = {
    (401, '{"code": -2015, "msg": "Invalid API-key"}'): "binance wants keys in BINANCE_API_KEY and BINANCE_SECRET",
    (403, "<html>Forbidden</html>"): "binance does not permit this request .* \\(HTTP 403: Forbidden\\)",
    (404, "nothing here"): "binance refuses the request \\(HTTP 404: nothing here\\)",
    (451, '{"code": 0, "msg": "restricted location"}'): "does not answer to the country of this machine",
    (400, '{"code": -1121, "msg": "Invalid symbol."}'): "binance does not know the symbol",
}


@pytest.mark.slow
@pytest.mark.parametrize(("code", "body"), REFUSALS)
def test_a_refusal_is_one_sentence_at_once(binance: FeedServer, waits: list[float], code: int, body: str) -> None:
    feed = CcxtFeed("binance")
    feed.check([BTC])
    binance.faults = [status(code, body.encode())]
    with pytest.raises(DataError, match=REFUSALS[code, body]) as raised:
        download(feed, BTC, START, START + COUNT * FIVE)
    assert waits == [] and len(klines(binance)) == 1
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_a_server_that_never_answers_well_is_given_up(binance: FeedServer, waits: list[float]) -> None:
    binance.faults = [drop] * 100
    with pytest.raises(DataError, match="binance: the connection failed or broke, 5 times; the same command continues"):
        fetched()
    assert waits == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.slow
def test_keys_are_used_once_the_exchange_asks_for_them(binance: FeedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINANCE_API_KEY", "PLANTEDBINANCEKEY")
    monkeypatch.setenv("BINANCE_SECRET", "pl4nted")
    feed = CcxtFeed("binance")
    feed.check([BTC])
    assert not any("signature" in asked for asked in binance.requests)
    binance.faults = [status(401, {"code": -2014, "msg": "API-key format invalid."})]
    assert_whole(download(feed, BTC, START, START + COUNT * FIVE))
    assert feed._exchange.apiKey == "PLANTEDBINANCEKEY"
    binance.faults = [status(401, {"code": -2014, "msg": "API-key format invalid."})]
    with pytest.raises(DataError, match="does not accept the keys in BINANCE_API_KEY and BINANCE_SECRET"):
        download(feed, BTC, START, START + COUNT * FIVE, fresh_until=math.inf)


@pytest.mark.slow
def test_bars_that_come_twice_or_in_another_order_count_once(binance: FeedServer) -> None:
    binance.changed = lambda bars: [*bars[::-1], *bars[:3]]
    assert_whole(fetched())


@pytest.mark.slow
def test_a_bar_of_the_future_hides_none(binance: FeedServer) -> None:
    binance.changed = lambda bars: [*bars, [4_070_908_800_000, *bars[-1][1:]]]
    assert_whole(fetched())


@pytest.mark.slow
def test_bars_begin_when_the_market_did(binance: FeedServer) -> None:
    bars = fetched(START - 900_000, 3000 + COUNT)
    assert_whole(bars)


@pytest.mark.slow
def test_an_exchange_that_sends_the_newest_bars_first_is_asked_with_an_end(binance: FeedServer) -> None:
    whole = binance.starts

    def newest(symbol: str, first: int, last: int, step: int) -> list[int]:
        return whole(symbol, first, last, step)[-1000:]

    binance.starts = newest  # type: ignore[method-assign]
    assert_whole(fetched())


@pytest.mark.slow
def test_the_bar_that_is_not_complete_yet_is_left_out(binance: FeedServer) -> None:
    now = int(time.time())
    binance.symbols["BTC/USDT"] = now - 7200, now + 7200
    start = (now - 3600) // FIVE * FIVE
    times = fetched(start, 100).times
    assert times[0] == start + FIVE
    assert now - FIVE - 5 <= times[-1] <= time.time()


@pytest.mark.slow
def test_a_file_is_fetched_and_updated(binance: FeedServer, tmp_path: Path) -> None:
    path = tmp_path / "btc.parquet"
    write(fetch(Download("ccxt:binance", ("BTC/USDT",), FIVE), START), path)
    binance.symbols["BTC/USDT"] = START, START + (COUNT + 70) * FIVE
    assert [(one.symbol, one.added) for one in update(path)] == [("BTC/USDT", 70)]
    assert read(path)["BTC/USDT"].times.tolist() == [START + i * FIVE for i in range(1, COUNT + 71)]
    assert read(path).history[0]["source"] == "ccxt:binance"


@pytest.mark.slow
def test_unknown_exchanges_are_refused() -> None:
    with pytest.raises(DataError, match="ccxt knows no exchange 'krakn': did you mean kraken"):
        CcxtFeed("krakn")
    with pytest.raises(DataError, match="bitflyer gives no bars"):
        CcxtFeed("bitflyer")


@pytest.mark.slow
def test_keys_that_ccxt_misses_are_named(binance: FeedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = CcxtFeed("binance")
    feed.check([BTC])
    monkeypatch.setattr(feed._exchange, "fetch_ohlcv", lambda *_: feed._exchange.check_required_credentials())
    with pytest.raises(DataError, match=r"binance wants keys in BINANCE_API_KEY and BINANCE_SECRET \(.*apiKey"):
        download(feed, BTC, START, START + COUNT * FIVE)


@pytest.mark.slow
def test_every_exchange_has_timeframes_of_a_fixed_length_only() -> None:
    """ccxt's 1M is a month, and 1m a minute."""
    assert CcxtFeed("binance")._timeframes[60] == "1m"
    assert all(name[-1] in "smhdw" for name in CcxtFeed("okx")._timeframes.values())


@pytest.mark.slow
@pytest.mark.parametrize("code", [401, 403, 500, 429, 200])
def test_no_key_is_ever_shown_or_stored(
    binance: FeedServer, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    keys = "PLANTEDBINANCEKEY", "pl4nted/s3cret+binance="
    monkeypatch.setenv("BINANCE_API_KEY", keys[0])
    monkeypatch.setenv("BINANCE_SECRET", keys[1])
    caplog.set_level(logging.DEBUG)
    feed = CcxtFeed("binance")
    feed.check([BTC])
    feed._authorise()
    download(feed, BTC, START, START + COUNT * FIVE)
    binance.faults = [status(code, f"{{'{keys[0]}': '{keys[1]}'}}".encode())] * 9
    with pytest.raises(DataError) as raised:
        download(feed, BTC, START, START + COUNT * FIVE, fresh_until=math.inf)
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    shown = "".join(traceback.format_exception(raised.value)) + caplog.text + "".join(capfd.readouterr())
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in keys:
        assert secret not in shown
        assert secret.encode() not in stored
