"""The limits that stop an account, and accounts that are never touched."""

from __future__ import annotations

import time

import pytest

from rookery.data.feeds.fetch import parse_time
from rookery.deploy.paper.bar_sources import KillLimits, open_seconds, parse_speed
from rookery.deploy.paper.paper import refuse_live
from rookery.errors import KillSwitch, LiveAccount, OptionError

FRIDAY, SUNDAY = (parse_time(text, "") for text in ("2024-06-07T20:00", "2024-06-09T23:00"))


def test_weekend_is_no_gap() -> None:
    assert open_seconds(FRIDAY - 3600, SUNDAY + 7200, "forex") == 10_800
    assert open_seconds(FRIDAY - 3600, SUNDAY + 7200, "24/7") > 100_000
    KillLimits(stale=3).check_gap(FRIDAY, SUNDAY + 3600, 3600, "forex", arrived=True)


@pytest.mark.parametrize(
    ("bars", "arrived", "stops"), [(4, True, False), (5, True, True), (3, False, False), (4, False, True)]
)
def test_stale_data(bars: int, arrived: bool, stops: bool) -> None:
    """Three bars may be missing: of those that have come, and of those that should have."""
    limits = KillLimits(stale=3)
    now = 300 * bars + (0 if arrived else 10)
    if stops:
        with pytest.raises(KillSwitch, match="no bar of 5m since 1970"):
            limits.check_gap(0, now, 300, "24/7", arrived)
        KillLimits(stale=0).check_gap(0, now, 300, "24/7", arrived)
    else:
        limits.check_gap(0, now, 300, "24/7", arrived)


def test_clocks() -> None:
    limits = KillLimits(clock_skew=30)
    limits.check_clock(None, "kraken")
    limits.check_clock(-29, "kraken")
    limits.check_future(int(time.time()) + 5)
    for ahead, side in ((31, "ahead of"), (-31, "behind")):
        with pytest.raises(KillSwitch, match=f"31 s {side} that of kraken"):
            limits.check_clock(ahead, "kraken")
    with pytest.raises(KillSwitch, match="in the future by this machine's clock"):
        limits.check_future(int(time.time()) + 100)
    KillLimits(clock_skew=0).check_clock(1e6, "kraken")


@pytest.mark.parametrize("options", [{"max_drawdown": 0}, {"max_drawdown": 1.5}, {"stale": -1}, {"clock_skew": -1}])
def test_limits_that_cannot_be(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="should be"):
        KillLimits(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["0x", "fast", "-1x", "", "1e3x"])
def test_speeds_that_cannot_be(text: str) -> None:
    with pytest.raises(OptionError, match="60x, or max"):
        parse_speed(text)


@pytest.mark.parametrize(
    ("data", "environment"),
    [
        ("https://api.alpaca.markets", {}),
        ("alpaca:live", {}),
        ("alpaca-live", {}),
        ("ccxt:kraken:live", {}),
        ("alpaca", {"APCA_API_BASE_URL": "https://api.alpaca.markets"}),
        ("alpaca", {"APCA_API_BASE_URL": "https://api.alpaca.markets/v2"}),
        ("alpaca", {"ALPACA_BASE_URL": "api.alpaca.markets"}),
        ("alpaca", {"APCA_API_KEY_ID": "AKLIVEKEY123456789", "APCA_API_SECRET_KEY": "secretsecretsecret"}),
    ],
)
def test_live_accounts_are_refused(data: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a key is used; and no key is in the message."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LiveAccount) as refused:
        refuse_live(data)
    assert "AKLIVE" not in str(refused.value) and "secretsecret" not in str(refused.value)


@pytest.mark.parametrize("data", ["alpaca", "ccxt:kraken", "data/live/5m.parquet", "alpaca-bars.parquet"])
def test_paper_and_files_are_not(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APCA_API_BASE_URL", "https://paper-api.alpaca.markets")
    monkeypatch.setenv("APCA_API_KEY_ID", "PKPAPERKEY12345678")
    assert not is_refused(data)
    monkeypatch.setenv("APCA_API_KEY_ID", "AKLIVEKEY123456789")
    assert is_refused("alpaca")  # by the key alone


def is_refused(data: str) -> bool:
    try:
        refuse_live(data)
    except LiveAccount:
        return True
    return False
