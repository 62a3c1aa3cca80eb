"""Curves of accounts, and how many of them are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rookery.errors import FileError
from rookery.training.backtest.joined_account import account_rows, join
from rookery.web.market_views import stored_accounts
from rookery.web.market_views.account_curves import AccountCurves
from rookery.web.market_views.market_routes import series_answer
from rookery.web.market_views.stored_accounts import AccountCache
from training.backtest.recorded import random_window


def account(bars: int = 50, assets: int = 2) -> AccountCurves:
    return AccountCurves.from_rows(account_rows(join([random_window(bars, assets)])))


def test_every_name_is_a_curve_of_all_bars() -> None:
    curves = account()
    assert all(len(curve) == 51 for curve in map(curves.curve, curves.names()) if curve is not None)
    assert None not in [None if curves.curve(name) is None else name for name in curves.names()]
    for odd in ("equity/me", "weight/2", "weight/x", "cost/", "", "weight/-1", "drawdown"):
        assert curves.curve(odd) is None


def test_an_account_that_is_lost_has_finite_curves() -> None:
    curves = account()
    lost = AccountCurves(curves.times, {**curves.columns, "agent": np.zeros(51)}, {})
    for name in lost.names():
        assert np.isfinite(lost.curve(name)).all(), name  # type: ignore[arg-type]


def test_accounts_of_different_times_share_an_axis() -> None:
    one, other = account(30), account(50)
    found = series_answer({"a": one, "b": other}, ["return/agent", "nothing"], "elapsed", None, None, 1000)
    assert set(found["series"]) == {"a:return/agent", "b:return/agent"} and len(found["x"]) == 51
    assert np.isnan(found["series"]["a:return/agent"][31:]).all()


def test_little_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_accounts, "MOST_BYTES", account().nbytes * 3)
    rows = account_rows(join([random_window(50, 2)]))
    cache = AccountCache()
    for number in range(9):
        np.save(tmp_path / f"{number}.npy", rows)
        cache.curves(tmp_path / f"{number}.npy")
    assert len(cache._files) == 3
    same = cache.curves(tmp_path / "8.npy")
    assert cache.curves(tmp_path / "8.npy") is same
    (tmp_path / "8.npy").write_bytes(b"")
    with pytest.raises(FileError):
        cache.curves(tmp_path / "8.npy")
