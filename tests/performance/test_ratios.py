"""Ratios, drawdowns and tables of returns, by figures that can be checked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rookery.errors import OptionError
from rookery.performance import ratios
from rookery.performance.periods import by_period, monthly_returns, returns_by_period, summarise
from rookery.performance.ratios import (
    calmar,
    drawdowns,
    hit_rate,
    longest_drawdown,
    max_drawdown,
    periods_per_year,
    profit_factor,
    sharpe,
    sortino,
)

RETURNS = np.array([0.02, -0.01, 0.03, -0.02, 0.0])
EQUITIES = arrays(np.float64, st.integers(2, 40), elements=st.floats(1, 1000))


def test_ratios_by_hand() -> None:
    """Mean 0.004; squares from the mean 0.00172 in sum, four for the variance; losses 0.0005 in squares."""
    assert sharpe(RETURNS) == pytest.approx(0.004 / math.sqrt(0.00172 / 4))
    assert sortino(RETURNS) == pytest.approx(0.004 / math.sqrt(0.0005 / 5))
    assert sortino(RETURNS, target=0.01) == pytest.approx(-0.006 / math.sqrt((0.02**2 + 0.03**2 + 0.01**2) / 5))
    assert sharpe(RETURNS, risk_free=0.004) == pytest.approx(0, abs=1e-12)
    assert hit_rate(RETURNS) == 0.5
    assert profit_factor(RETURNS) == pytest.approx(0.05 / 0.03)
    growth = 1.02 * 0.99 * 1.03 * 0.98
    assert ratios.total_return(RETURNS) == pytest.approx(growth - 1)
    assert ratios.annual_return(RETURNS, 10) == pytest.approx(growth**2 - 1)
    assert calmar(RETURNS, 10) == pytest.approx((growth**2 - 1) / 0.02)


def test_nothing_is_annualised_without_a_number() -> None:
    for ratio in (sharpe, sortino, ratios.volatility):
        assert ratio(RETURNS, 252) == pytest.approx(ratio(RETURNS) * math.sqrt(252))
    with pytest.raises(OptionError, match="periods_per_year=0: give a number above 0"):
        sharpe(RETURNS, 0)
    with pytest.raises(TypeError):
        calmar(RETURNS)  # type: ignore[call-arg]


def test_series_without_spread_losses_or_returns() -> None:
    still, steady = np.zeros(10), np.full(10, 0.1)
    assert [f(still) for f in (sharpe, sortino, hit_rate, profit_factor)] == [0, 0, 0, 0]
    assert calmar(still, 10) == 0
    assert sharpe(steady) == 0  # rounding is not a spread
    assert sortino(steady) == profit_factor(steady) == calmar(steady, 10) == math.inf
    assert sortino(-steady) == pytest.approx(-1)
    assert ratios.annual_return(np.array([0.5, -1.0, 0.2]), 10) == -1


def test_several_series_at_once() -> None:
    table = np.random.default_rng(1).normal(0, 0.01, (3, 4, 50))
    for ratio in (sharpe, sortino, hit_rate, profit_factor, ratios.volatility, ratios.total_return):
        assert ratio(table)[2, 1] == pytest.approx(ratio(table[2, 1]), rel=1e-12)
    assert calmar(table, 252)[0, 3] == pytest.approx(calmar(table[0, 3], 252), rel=1e-12)


@pytest.mark.parametrize("returns", [[], [0.1], 0.1, [0.1, math.nan], [0.1, math.inf]])
def test_returns_that_have_no_ratio(returns: object) -> None:
    with pytest.raises(OptionError, match=r"at least 2 returns|not finite"):
        sharpe(np.array(returns))


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ((300,), 105_120), ((86_400,), 365), ((604_800,), 365 / 7),
        ((3600, "forex"), 6240), ((86_400, "forex"), 260),
        ((86_400, "XNYS"), 252), ((604_800, "XNYS"), 50.4), ((60, "XNAS"), 252 * 390), ((3600, "XLON", 8.5), 252 * 8.5),
    ],
)  # fmt: skip
def test_periods_per_year(arguments: tuple, count: float) -> None:
    assert periods_per_year(*arguments) == pytest.approx(count)


def test_unknown_sessions_are_not_guessed() -> None:
    with pytest.raises(OptionError, match="a year of XTKS has depends on its sessions: give session_hours"):
        periods_per_year(60, "XTKS")
    with pytest.raises(OptionError, match="timeframe=0"):
        periods_per_year(0)


def test_drawdowns_by_hand() -> None:
    equity = np.array([100, 120, 90, 110, 125, 80, 100, 124.0])
    deepest = max_drawdown(equity)
    assert (deepest.peak, deepest.bottom, deepest.recovered, deepest.length) == (4, 5, None, 3)
    assert deepest.depth == pytest.approx(45 / 125)
    first = max_drawdown(equity[:5])
    assert (first.depth, first.peak, first.bottom, first.recovered, first.length) == (0.25, 1, 2, 4, 3)
    rising = max_drawdown(np.arange(1.0, 5.0))
    assert (rising.depth, rising.length, rising.recovered) == (0, 0, 0)
    with pytest.raises(OptionError, match="above 0"):
        drawdowns(np.array([0.0, 1.0]))


@settings(max_examples=50, deadline=None)
@given(EQUITIES)
def test_drawdowns_against_loops(equity: np.ndarray) -> None:
    falls = [1 - value / max(equity[: row + 1]) for row, value in enumerate(equity)]
    np.testing.assert_allclose(drawdowns(equity), falls)
    longest, peak = 0, 0
    for row, value in enumerate(equity):
        if value >= equity[peak]:
            longest = max(longest, row - peak if row - peak > 1 else 0)
            peak = row
    longest = max(longest, len(equity) - 1 - peak)
    assert longest_drawdown(equity) == longest
    deepest = max_drawdown(equity)
    assert deepest.depth == pytest.approx(max(falls)) and falls[deepest.peak] == 0
    if deepest.recovered is not None:
        assert (
            equity[deepest.recovered] >= equity[deepest.peak]
        ) and deepest.recovered - deepest.peak == deepest.length


def test_months_of_two_years() -> None:
    """A bar that is complete at midnight belongs to the month before; months without a bar are NaN."""
    days = np.array(["2023-12-01", "2023-12-31", "2024-01-01", "2024-01-15", "2024-03-02"], "datetime64[s]")
    years, table = monthly_returns(days.astype(np.int64), np.array([100.0, 110.0, 121.0, 242.0, 121.0]))
    assert years.tolist() == [2023, 2024] and table.shape == (2, 12)
    assert table[0, 11] == pytest.approx(0.21) and table[1, 0] == pytest.approx(1.0)
    assert table[1, 2] == pytest.approx(-0.5) and np.isfinite(table).sum() == 3


@pytest.mark.parametrize("period", ["day", "week", "month", "quarter", "year"])
def test_the_periods_make_up_the_whole(period: str) -> None:
    rng = np.random.default_rng(3)
    times = 1_700_000_000 + np.cumsum(rng.integers(3600, 300_000, 600))
    equity = 100 * np.cumprod(1 + rng.normal(0, 0.01, 600))
    starts, returns = returns_by_period(times, equity, period)
    assert (np.diff(starts.astype(np.int64)) > 0).all()
    assert np.prod(1 + returns) == pytest.approx(equity[-1] / equity[0])
    rows = by_period(times, equity, period, periods_per_year=365)
    assert [row["return"] for row in rows] == pytest.approx(list(returns)) and sum(row["bars"] for row in rows) == 599
    assert rows[0]["start"] == str(starts[0]) and max(row["max_drawdown"] for row in rows) <= max_drawdown(equity).depth
    if period == "week":
        assert set((starts.astype(np.int64) + 3) % 7) == {0}  # Mondays


def test_periods_that_do_not_exist() -> None:
    with pytest.raises(OptionError, match="period='hour': give day, month, quarter, year, week"):
        returns_by_period(np.arange(3), np.ones(3), "hour")
    with pytest.raises(OptionError, match="3 times and 2 values of the equity"):
        monthly_returns(np.arange(3), np.ones(2))


def test_the_summary_says_with_what_it_is_annualised() -> None:
    equity = np.array([100, 110, 99, 108.9])
    figures = summarise(equity, 252, exposure=np.array([0.5, 0.0, -1.0]), turnover=np.array([0.5, 0.5, 1.0]))
    assert figures["periods_per_year"] == 252 and figures["periods"] == 3
    assert figures["sharpe"] == pytest.approx(sharpe(ratios.simple_returns(equity)) * math.sqrt(252))
    assert figures["mean_exposure"] == pytest.approx(-1 / 6) and figures["time_in_market"] == pytest.approx(2 / 3)
    assert figures["turnover"] == 2 and figures["annual_turnover"] == pytest.approx(168)
    assert figures["max_drawdown"] == pytest.approx(0.1) and figures["recovered"] is False
    assert "turnover" not in summarise(equity, 252)
