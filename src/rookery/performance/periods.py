"""Returns by calendar periods, and the summary of a backtest. A bar belongs to the period in which it ends, in UTC."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.errors import OptionError
from rookery.performance import ratios
from rookery.performance.ratios import longest_drawdown, max_drawdown, sharpe, simple_returns

PERIODS = {"day": "D", "month": "M", "quarter": "3M", "year": "Y"}


def period_starts(times: np.ndarray, period: str) -> np.ndarray:
    """The first day of the period of each time. A bar that is complete at midnight belongs to the day before.

    >>> period_starts(np.array([1_704_067_200, 1_704_067_201]), "month").tolist()
    [datetime.date(2023, 12, 1), datetime.date(2024, 1, 1)]
    """
    moments = (np.asarray(times, np.int64) - 1).astype("datetime64[s]")
    if period == "week":  # NumPy's weeks begin on Thursday, as 1970 did
        days = moments.astype("datetime64[D]").astype(np.int64)
        return (days - (days + 3) % 7).astype("datetime64[D]")
    if period not in PERIODS:
        raise OptionError(f"period={period!r}: give {', '.join([*PERIODS, 'week'])}")
    return moments.astype(f"datetime64[{PERIODS[period]}]").astype("datetime64[D]")


def returns_by_period(times: np.ndarray, equity: np.ndarray, period: str) -> tuple[np.ndarray, np.ndarray]:
    """The first day and the return of each period that has a bar after the first.

    Args:
        times: When each value of the equity is known, rising: seconds since 1970, in UTC.
        equity: The value of the account at each time; the first is what it began with.
        period: "day", "week", "month", "quarter" or "year".
    """
    values = np.asarray(equity, np.float64)
    starts = period_starts(times, period)[1:]
    if len(values) < 2 or len(times) != len(values):
        raise OptionError(f"{len(times)} times and {len(values)} values of the equity: give as many, and at least 2")
    last = np.flatnonzero(np.append(starts[1:] != starts[:-1], True)) + 1
    return starts[last - 1], values[last] / values[np.concatenate([[0], last[:-1]])] - 1


def monthly_returns(times: np.ndarray, equity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The years, and a table (years, 12) of the returns of their months, NaN where there is none.

    >>> days = 1_704_067_200 + 86_400 * np.arange(61)  # from 1 January 2024
    >>> years, table = monthly_returns(days, 100.0 + np.arange(61))
    >>> years.tolist(), table[0, :3].round(3).tolist()
    ([2024], [0.31, 0.221, nan])
    """
    starts, found = returns_by_period(times, equity, "month")
    months = starts.astype("datetime64[M]").astype(np.int64)
    years = np.arange(months.min() // 12, months.max() // 12 + 1)
    table = np.full((len(years), 12), np.nan)
    table[months // 12 - years[0], months % 12] = found
    return years + 1970, table


def by_period(
    times: np.ndarray, equity: np.ndarray, period: str = "year", periods_per_year: float | None = None
) -> list[dict[str, Any]]:
    """One row per period: its first day, return, Sharpe ratio, largest drawdown and number of bars."""
    values = np.asarray(equity, np.float64)
    days, gained = returns_by_period(times, values, period)
    starts = period_starts(times, period)[1:]
    rows = []
    for day, gain in zip(days, gained, strict=True):
        own = np.flatnonzero(starts == day)
        part = values[own[0] : own[-1] + 2]
        ratio = sharpe(simple_returns(part), periods_per_year) if len(own) > 1 else 0.0
        rows.append({"start": str(day), "return": float(gain), "sharpe": ratio,
                     "max_drawdown": max_drawdown(part).depth, "bars": len(own)})  # fmt: skip
    return rows


def summarise(
    equity: np.ndarray, periods_per_year: float, exposure: np.ndarray | None = None, turnover: np.ndarray | None = None
) -> dict[str, Any]:
    """The figures of a backtest. Annualised figures use `periods_per_year`, which is among them.

    Args:
        equity: The value of the account, from before the first step to after the last.
        periods_per_year: How many steps a year has: see `periods_per_year`.
        exposure: For each step, the value of all positions as a part of the equity; negative if short.
        turnover: For each step, the traded value as a part of the equity.

    >>> figures = summarise(np.array([100.0, 110.0, 99.0, 108.9]), periods_per_year=252)
    >>> figures["periods"], round(figures["total_return"], 3), figures["max_drawdown"]
    (3, 0.089, 0.1)
    """
    returns = simple_returns(equity)
    deepest = max_drawdown(equity)
    figures = {
        "periods": len(returns),
        "periods_per_year": float(periods_per_year),
        "total_return": ratios.total_return(returns),
        "annual_return": ratios.annual_return(returns, periods_per_year),
        "volatility": ratios.volatility(returns, periods_per_year),
        "sharpe": ratios.sharpe(returns, periods_per_year),
        "sortino": ratios.sortino(returns, periods_per_year),
        "calmar": ratios.calmar(returns, periods_per_year),
        "max_drawdown": deepest.depth,
        "max_drawdown_length": deepest.length,
        "recovered": deepest.recovered is not None,
        "longest_drawdown": longest_drawdown(equity),
        "hit_rate": ratios.hit_rate(returns),
        "profit_factor": ratios.profit_factor(returns),
    }
    if exposure is not None:
        held = np.asarray(exposure, np.float64)
        figures |= {"mean_exposure": float(held.mean()), "time_in_market": float((held != 0).mean())}
    if turnover is not None:
        traded = np.asarray(turnover, np.float64)
        yearly = float(traded.mean() * periods_per_year)
        figures |= {"turnover": float(traded.sum()), "mean_turnover": float(traded.mean()), "annual_turnover": yearly}
    return figures
