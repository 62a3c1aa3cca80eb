"""Bars from Alpaca, against a server that answers as Alpaca's does."""

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
from rookery.data.feeds.alpaca_feed import AlpacaFeed, alpaca_timeframe
from rookery.data.feeds.download import download
from rookery.data.feeds.feed import Series
from rookery.errors import DataError

BTC = Series("alpaca", "BTC/USD", 300, "us")
AAPL = Series("alpaca", "AAPL", 300, "iex", "split")
FIVE = 300
ONES = dict.fromkeys("ohlcv", 1.0)


def fetched(series: Series = BTC, bars: int = 100, start: int = START, **options: Any) -> Bars:
    feed = AlpacaFeed()
    feed.check([series])
    try:
        return download(feed, series, start, start + bars * series.timeframe, **options)
    finally:
        feed.close()


@pytest.fixture
def btc(server: FeedServer) -> FeedServer:
    server.symbols["BTC/USD"] = START, START + 100 * FIVE
    server.symbols["AAPL"] = START, START + 100 * FIVE
    return server


def assert_whole(bars: Bars, count: int = 100) -> None:
    """All bars, each once, at the times at which they are complete."""
    starts = [START + i * FIVE for i in range(count)]
    assert bars.times.tolist() == [start + FIVE for start in starts]
    assert bars.times.dtype == np.int64
    assert np.column_stack(list(bars.columns.values())).tolist() == [bar(start) for start in starts]
    assert list(bars.columns) == ["open", "high", "low", "close", "volume"]


@pytest.mark.parametrize("page", [10_000, 100, 33, 7])
def test_pages_are_joined_and_a_bar_has_the_time_at_which_it_is_complete(btc: FeedServer, page: int) -> None:
    btc.page = page
    assert_whole(fetched())
    assert len(btc.requests) == -(-100 // page)


def test_stocks_are_asked_for_with_feed_adjustment_and_keys(btc: FeedServer, keys: tuple[str, str]) -> None:
    assert_whole(fetched(AAPL))
    (asked,) = btc.requests
    assert (asked["path"], asked["feed"], asked["adjustment"]) == ("/v2/stocks/bars", "iex", "split")
    assert (asked["headers"]["APCA-API-KEY-ID"], asked["headers"]["APCA-API-SECRET-KEY"]) == keys


def test_crypto_needs_no_keys_and_stocks_do(btc: FeedServer) -> None:
    fetched()
    assert "APCA-API-KEY-ID" not in btc.requests[0]["headers"]
    with pytest.raises(DataError, match="set APCA_API_KEY_ID and APCA_API_SECRET_KEY"):
        fetched(AAPL)
    assert len(btc.requests) == 1


def one_bar(start: str, **values: float) -> dict[str, Any]:
    return {"bars": {"BTC/USD": [{"t": start, **values}]}, "next_page_token": None}


FAULTS = {
    "429 that names the seconds": (status(429, {"message": "too many requests."}, Retry_After="7"), 7.0),
    "500": (status(500, b"<html>oops</html>"), 1.0),
    "502": (status(502), 1.0),
    "503 that names the seconds": (status(503, b"", Retry_After="3"), 3.0),
    "504": (status(504), 1.0),
    "a connection that breaks in the middle of the body": (drop, 1.0),
    "no JSON": (lambda handler: answer(handler, b'{"bars": {"BTC/USD": [{"t"'), 1.0),
    "other JSON": (lambda handler: answer(handler, [1, 2]), 1.0),
    "an empty body": (lambda handler: answer(handler, b""), 1.0),
    "bars without a price": (lambda handler: answer(handler, one_bar("2024-01-01T00:00:00Z")), 1.0),
    "bars without a zone": (
        lambda handler: answer(handler, one_bar("2024-01-01T00:00:00", **ONES)),
        1.0,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_followed_by_another_attempt(btc: FeedServer, waits: list[float], name: str) -> None:
    fault, wait = FAULTS[name]
    btc.page, btc.faults = 40, [None, fault]
    assert_whole(fetched())
    assert waits == [wait]
    assert len(btc.requests) == 4


def test_the_time_until_a_rate_limit_ends_is_waited_for(btc: FeedServer, waits: list[float]) -> None:
    btc.faults = [status(429, b"", X_RateLimit_Limit="200", X_RateLimit_Reset=str(int(time.time()) + 20))]
    assert_whole(fetched())
    assert 18 <= waits[0] <= 22


def test_attempts_are_bounded_and_wait_longer_each_time(btc: FeedServer, waits: list[float]) -> None:
    btc.faults = [status(500)] * 20
    with pytest.raises(DataError, match=r"alpaca: the server failed \(HTTP 500\), 5 times; the same command continues"):
        fetched()
    assert waits == [1.0, 2.0, 4.0, 8.0]
    assert len(btc.requests) == 5


def test_a_wait_that_is_too_long_is_reported_and_not_waited_for(btc: FeedServer, waits: list[float]) -> None:
    btc.faults = [status(429, b"", Retry_After="3600")]
    with pytest.raises(DataError, match="asks to wait for 3600 s"):
        fetched()
    assert waits == []


REFUSALS = {
    (401, ""): "alpaca wants keys in APCA_API_KEY_ID and APCA_API_SECRET_KEY \\(HTTP 401\\)",
    (403, "forbidden."): "alpaca does not permit this request .* \\(HTTP 403: forbidden.\\)",
    (404, "Not Found"): "alpaca refuses the request \\(HTTP 404: Not Found\\)",
    (400, "invalid symbol: BTC/USD"): "alpaca refuses the request \\(HTTP 400: invalid symbol: BTC/USD\\)",
    (422, "end should not be before start"): "\\(HTTP 422: end should not be before start\\)",
}


@pytest.mark.parametrize(("code", "said"), REFUSALS)
def test_a_refusal_is_one_sentence_at_once(btc: FeedServer, waits: list[float], code: int, said: str) -> None:
    btc.faults = [status(code, {"message": said})]
    with pytest.raises(DataError, match=REFUSALS[code, said]) as raised:
        fetched()
    assert waits == [] and len(btc.requests) == 1
    assert "\n" not in str(raised.value)


def test_bars_that_come_twice_or_in_another_order_count_once(btc: FeedServer) -> None:
    """Also over the border between two pages, where the later answer counts."""
    btc.page = 20
    seen: list[dict[str, Any]] = []

    def shuffled(bars: list[dict[str, Any]]) -> list[dict[str, Any]]:
        again = [{**old, "v": 1234.0} for old in seen[-1:]]  # the first answer said something else
        seen.extend(bars)
        return [*bars[::-1], *again, bars[3]]

    btc.changed = shuffled
    bars = fetched()
    assert bars.times.tolist() == [START + i * FIVE for i in range(1, 101)]
    assert [i for i, volume in enumerate(bars["volume"]) if volume == 1234.0] == [19, 39, 59, 79]


@pytest.mark.parametrize("when", ["2099-01-01T00:00:00Z", "2024-03-01T00:00:00Z", "1970-01-01T00:00:00Z"])
def test_a_bar_of_another_time_hides_none(btc: FeedServer, when: str) -> None:
    btc.page = 20
    btc.changed = lambda bars: [*bars[:5], {**bars[5], "t": when}, *bars[5:]]
    assert_whole(fetched())


def test_an_empty_page_with_more_to_come_is_passed_over(btc: FeedServer) -> None:
    btc.faults = [lambda handler: answer(handler, {"bars": {}, "next_page_token": "page-0"})]
    assert_whole(fetched())


def test_the_same_page_for_ever_ends(btc: FeedServer) -> None:
    btc.faults = [lambda handler: answer(handler, {"bars": None, "next_page_token": "again"})] * 9
    with pytest.raises(DataError, match="the same page of BTC/USD again and again"):
        fetched()


def test_a_period_without_bars_has_none(btc: FeedServer) -> None:
    btc.faults = [lambda handler: answer(handler, {"bars": None, "next_page_token": None})]
    assert len(fetched()) == 0


def test_the_bar_that_is_not_complete_yet_is_left_out(server: FeedServer) -> None:
    now = int(time.time())
    server.symbols["BTC/USD"] = now - 7200, now + 7200  # it even claims to know the future
    start = (now - 3600) // FIVE * FIVE
    times = fetched(start=start).times
    assert times[0] == start + FIVE
    assert now - FIVE - 5 <= times[-1] <= time.time()


def test_a_clock_that_is_fast_makes_no_bar_complete(server: FeedServer) -> None:
    now = int(time.time())
    server.symbols["BTC/USD"] = now - 7200, now + 7200
    server.date = now - 1800
    start = (now - 3600) // FIVE * FIVE
    assert fetched(start=start).times[-1] <= time.time() - 1800


def test_days_are_complete_at_the_end_of_the_last_time_zone(server: FeedServer) -> None:
    """Alpaca's days of crypto end at midnight in Chicago: 05:00 or 06:00 UTC. Those of stocks in New York's."""
    feed = AlpacaFeed()
    day = Series("alpaca", "BTC/USD", 86_400, "us")
    summer, winter = 1_720_674_000, 1_704_088_800  # 2024-07-11 05:00 and 2024-01-01 06:00
    assert feed.complete_at(day, np.array([winter, summer])).tolist() == [winter + 86_400, summer + 3600 + 86_400]
    stock = Series("alpaca", "AAPL", 86_400, "iex")
    assert feed.complete_at(stock, np.array([winter - 3600, summer - 3600])).tolist() == [
        winter - 3600 + 86_400,
        summer + 86_400,
    ]
    assert feed.complete_at(BTC, np.array([summer])).tolist() == [summer + 300]


def test_bars_without_a_price_are_left_out_and_reported(btc: FeedServer, caplog: pytest.LogCaptureFixture) -> None:
    btc.changed = lambda bars: [
        {**b, "c": None} if i == 5 else {**b, "l": -1} if i == 6 else b for i, b in enumerate(bars)
    ]
    assert len(fetched()) == 98
    assert "2 bars of BTC/USD have no price or an impossible one" in caplog.text


def test_an_account_without_recent_prices_gets_the_older_ones(
    server: FeedServer, keys: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    now = int(time.time())
    server.symbols["AAPL"] = now - 7200, now
    server.faults = [status(403, {"message": "subscription does not permit querying recent SIP data"})]
    start = (now - 3600) // FIVE * FIVE
    times = fetched(Series("alpaca", "AAPL", FIVE, "sip"), start=start).times
    assert now - 1500 < times[-1] <= now - 600
    assert "after 15 minutes" in caplog.text


@pytest.mark.parametrize(
    ("series", "problem"),
    [
        (Series("alpaca", "BTC/USD", 300, "iex"), "no feed 'iex' for BTC/USD: there is us"),
        (Series("alpaca", "AAPL", 300, "us"), "no feed 'us' for AAPL: there is sip or iex"),
        (Series("alpaca", "AAPL", 300, "iex", "half"), "cannot be 'half': there is raw or split"),
        (Series("alpaca", "BTC/USD", 300, "us", "split"), "cannot be 'split': there is raw$"),
        (Series("alpaca", "BTC/USD", 7_200 * 60, "us"), "alpaca has no bars of 5d"),
        (Series("alpaca", "BTC/USD", 30, "us"), "alpaca has no bars of 30s"),
    ],
)
def test_what_alpaca_does_not_have_is_refused_before_any_request(
    server: FeedServer, keys: tuple[str, str], series: Series, problem: str
) -> None:
    with pytest.raises(DataError, match=problem):
        fetched(series)
    assert server.requests == []


def test_timeframes_have_alpacas_names() -> None:
    names = [alpaca_timeframe(seconds) for seconds in (60, 900, 3600, 14_400, 86_400, 604_800)]
    assert names == ["1Min", "15Min", "1Hour", "4Hour", "1Day", "1Week"]


def test_keys_are_sent_to_encrypted_addresses_only(monkeypatch: pytest.MonkeyPatch, keys: tuple[str, str]) -> None:
    monkeypatch.setenv("APCA_API_DATA_URL", "http://data.example.com")
    with pytest.raises(DataError, match="should be an https:// address"):
        AlpacaFeed()


def test_one_key_without_the_other_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPACA_API_KEY", "PK123456")
    with pytest.raises(DataError, match="but not APCA_API_SECRET_KEY or ALPACA_SECRET_KEY: set both") as raised:
        AlpacaFeed()
    assert "PK123456" not in str(raised.value)


QUOTED = "s3cretPlanted%2F%2Bkey%3D987654321"  # the secret, in an address
ECHOES = {
    "401": [status(401, {"message": "key {key} with {secret} is unknown"})],
    "403": [status(403, b"<b>{key}</b> {quoted}")],
    "422": [status(422, {"code": 1, "msg": "{secret}"})],
    "500": [status(500, b"{secret}")] * 9,
    "429": [status(429, b"{key}", Retry_After="9999")],
    "no JSON": [lambda handler: answer(handler, b"{key} {secret}")] * 9,
}


@pytest.mark.parametrize("name", ECHOES)
def test_no_key_is_ever_shown_or_stored(
    btc: FeedServer, keys: tuple[str, str], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Whatever the server says, and with every logger at its most talkative."""
    from data.feeds import feed_server

    plain = feed_server.answer

    def echo(handler: Any, body: Any, *more: Any) -> None:
        text = body if isinstance(body, bytes) else feed_server.json.dumps(body).encode()
        for mark, value in (
            ("{key}", keys[0]),
            ("{secret}", keys[1]),
            ("{quoted}", "s3cretPlanted%2F%2Bkey%3D987654321"),
        ):
            text = text.replace(mark.encode(), value.encode())
        plain(handler, text, *more)

    monkeypatch.setattr(feed_server, "answer", echo)
    monkeypatch.setitem(globals(), "answer", echo)
    caplog.set_level(logging.DEBUG)
    btc.page = 50
    fetched()  # stores parts
    btc.faults = list(ECHOES[name])
    with pytest.raises(DataError) as raised:
        fetched(fresh_until=math.inf)
    shown = "".join(traceback.format_exception(raised.value)) + caplog.text + "".join(capfd.readouterr())
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    shown += repr(AlpacaFeed().keys)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert stored
    for secret in (*keys, QUOTED):
        assert secret not in shown
        assert secret.encode() not in stored


def test_a_key_with_a_line_end_is_used_without_it_and_a_damaged_one_is_not_shown(
    btc: FeedServer, keys: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APCA_API_KEY_ID", f" {keys[0]}\n")
    fetched()
    assert btc.requests[0]["headers"]["APCA-API-KEY-ID"] == keys[0]
    monkeypatch.setenv("APCA_API_KEY_ID", "PKBAD\nKEYVALUE")
    with pytest.raises(DataError, match="a key holds letters that cannot be sent") as raised:
        fetched(fresh_until=math.inf)
    assert "KEYVALUE" not in "".join(traceback.format_exception(raised.value))
