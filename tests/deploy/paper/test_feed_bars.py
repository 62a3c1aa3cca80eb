"""Bars of a feed: Alpaca's REST API, answered by a local server, with a clock that the test sets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from data.feeds.conftest import KEY, SECRET
from data.feeds.feed_server import FeedServer, bar, status
from deploy.paper.trading import bars, bars_of, crypto_run, parity, stored
from rookery.deploy.paper.account_files import AccountFolder
from rookery.deploy.paper.bar_sources import KillLimits
from rookery.deploy.paper.paper import PaperOptions, paper
from rookery.errors import KillSwitch, LiveAccount

STEP = 300
NOW = 1_704_100_000 // STEP * STEP


class Market:
    """A market whose time passes when the trader sleeps. Bars of both coins are complete at each multiple of STEP."""

    def __init__(self, server: FeedServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.server = float(NOW + 10), server
        self.on_sleep: list[Callable[[], None]] = []
        for place in ("rookery.data.feeds.feed.time", "rookery.deploy.paper.bar_sources.time",
                      "rookery.deploy.paper.bar_sources.time", "rookery.deploy.paper.account_files.time"):  # fmt: skip
            monkeypatch.setattr(place, self)
        self.tick()

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.tick()
        for hook in self.on_sleep:
            hook()

    def tick(self) -> None:
        self.server.date = self.now
        for symbol in ("BTC/USD", "ETH/USD"):
            self.server.symbols[symbol] = (0, int(self.now) // STEP * STEP)


@pytest.fixture
def market(monkeypatch: pytest.MonkeyPatch) -> Iterator[Market]:
    served = FeedServer()
    monkeypatch.setenv("APCA_API_DATA_URL", served.address)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("APCA_API_KEY_ID", "APCA_API_SECRET_KEY", "ALPACA_API_KEY", "ALPACA_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("rookery.data.feeds.feed.sleep", lambda seconds: None)
    monkeypatch.setattr("rookery.data.feeds.download.cache_folder", lambda name: None)
    yield Market(served, monkeypatch)
    served.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("runs")
    return crypto_run(folder, stored(folder, bars()), columns=["close", "volume", "rsi_14", "ema_10", "mom_1"])


def follow(run: Any, account: Path, count: int | None, **limits: Any) -> list[Any]:
    options = PaperOptions("alpaca", account=account, history=60, bars=count, limits=KillLimits(1.0, **limits))
    paper(run.path, options)
    return bars_of(AccountFolder(account).lines())


def test_bars_as_they_come(run: Any, market: Market, tmp_path: Path) -> None:
    """Each bar is traded when it is complete, with its own numbers; parity holds for a feed too."""
    lines = follow(run, tmp_path, 12)
    assert [line["time"] for line in lines] == [NOW + STEP * k for k in range(1, 13)]
    assert lines[3]["bars"]["BTC/USD"] == bar(lines[3]["time"] - STEP)
    assert not any(line["missed"] for line in lines)
    assert parity(run.path, tmp_path).first_difference is None
    came = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [event["time"] for event in came] == [line["time"] for line in lines]
    assert all(0 <= event["at"] - event["time"] < STEP for event in came)


@pytest.mark.slow
def test_missed_bars_are_held(run: Any, market: Market, tmp_path: Path) -> None:
    """After a while without a process: orders from before are filled, and nothing is ordered in the past."""
    follow(run, tmp_path, 4)
    market.sleep(3 * STEP)
    lines = follow(run, tmp_path, 9)
    assert [line["missed"] for line in lines] == [False] * 4 + [True] * 3 + [False] * 2
    assert all(not line["orders"] for line in lines if line["missed"])
    assert parity(run.path, tmp_path).first_difference is None


@pytest.mark.slow
def test_late_symbol_is_waited_for(run: Any, market: Market, tmp_path: Path) -> None:
    """A bar that one coin lacks is requested again, until the next one is due."""
    real = market.tick

    def tick() -> None:
        real()
        if market.now < NOW + 3 * STEP + 60:
            first, last = market.server.symbols["ETH/USD"]
            market.server.symbols["ETH/USD"] = (first, min(last, NOW + 2 * STEP))

    market.tick = tick  # type: ignore[method-assign]
    lines = follow(run, tmp_path, 5)
    assert [line["time"] for line in lines] == [NOW + STEP * k for k in range(1, 6)]
    assert set(lines[2]["bars"]) == {"BTC/USD", "ETH/USD"} and not lines[2]["missed"]


@pytest.mark.slow
def test_stale_feed(run: Any, market: Market, tmp_path: Path) -> None:
    follow(run, tmp_path, 2)
    frozen = {symbol: (0, NOW + 2 * STEP) for symbol in ("BTC/USD", "ETH/USD")}
    market.tick = lambda: setattr(market.server, "date", market.now)  # type: ignore[method-assign]
    market.server.symbols = frozen
    with pytest.raises(KillSwitch, match="no bar of 5m since") as stopped:
        follow(run, tmp_path, None)
    assert stopped.value.kind == "stale-data"
    assert NOW + 6 * STEP < market.now < NOW + 8 * STEP


@pytest.mark.slow
def test_missing_feed(run: Any, market: Market, tmp_path: Path) -> None:
    """A feed that fails for a while is asked again; one that does not come back stops the account."""
    follow(run, tmp_path, 2)
    market.server.faults = [status(503)] * 5
    assert len(follow(run, tmp_path, 4)) == 4
    market.on_sleep.append(lambda: setattr(market.server, "faults", [status(503)] * 5))
    with pytest.raises(KillSwitch, match="the server failed") as stopped:
        follow(run, tmp_path, None)
    assert stopped.value.kind == "missing-feed"


@pytest.mark.slow
def test_refusing_feed(run: Any, market: Market, tmp_path: Path) -> None:
    follow(run, tmp_path, 2)
    market.on_sleep.append(lambda: setattr(market.server, "faults", [status(403, {"message": "forbidden"})]))
    with pytest.raises(KillSwitch, match="forbidden") as stopped:
        follow(run, tmp_path, None)
    assert stopped.value.kind == "missing-feed"


@pytest.mark.parametrize("skew", [-120, 120])
def test_clock_skew(run: Any, market: Market, tmp_path: Path, skew: int) -> None:
    follow(run, tmp_path, 2)
    real = market.tick

    def tick() -> None:
        real()
        market.server.date = market.now + skew

    market.tick = tick  # type: ignore[method-assign]
    tick()
    with pytest.raises(KillSwitch, match=r"12\d s") as stopped:
        follow(run, tmp_path, None)
    assert stopped.value.kind == "clock-skew"


def test_live_endpoint_is_refused_before_a_key_is_used(
    run: Any, market: Market, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APCA_API_KEY_ID", KEY)
    monkeypatch.setenv("APCA_API_SECRET_KEY", SECRET)
    monkeypatch.setenv("APCA_API_BASE_URL", "https://api.alpaca.markets")
    with pytest.raises(LiveAccount):
        follow(run, tmp_path, 2)
    assert market.server.requests == [] and not (tmp_path / "log.jsonl").exists()
