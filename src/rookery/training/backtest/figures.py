"""The figures of one account: returns, ratios, drawdowns. A figure that does not exist, such as the Sharpe ratio of an
account that never moved, is None."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rookery.performance.drawdown import longest_drawdown, max_drawdown
from rookery.performance.ratios import annual_return, calmar, hit_rate, sharpe, sortino, volatility
from rookery.training.backtest.calendar_periods import DAY
from rookery.training.backtest.joined_account import JoinedAccount

SHORTEST_YEAR = 90 * DAY  # seconds from which on a return is annualised; of a week it would be a fantasy


def account_figures(account: JoinedAccount, strategy: str, periods_per_year: float) -> dict[str, Any]:
    """The figures of the agent, or of an account that it is compared with."""
    returns, equity = account.returns(strategy), account.equity[strategy]
    deepest = max_drawdown(equity)
    longest = longest_drawdown(equity)
    return plain(
        {
            "total_return": float(equity[-1] / equity[0] - 1),
            **_ratios(returns, periods_per_year, float(account.times[-1] - account.times[0]) >= SHORTEST_YEAR),
            "max_drawdown": deepest.depth,
            "max_drawdown_bars": deepest.length,
            "longest_drawdown_bars": longest,
            "longest_drawdown_days": _longest_days(account.times, equity),
            "final_equity": float(equity[-1]),
        }
    )


def _ratios(returns: np.ndarray, periods_per_year: float, is_long: bool) -> dict[str, float | None]:
    """Ratios, where there are returns that differ."""
    if len(returns) < 2 or returns.std() == 0:
        names = ("annual_return", "volatility", "sharpe", "sharpe_per_bar", "sortino", "calmar", "hit_rate")
        return dict.fromkeys(names)
    return {
        "annual_return": annual_return(returns, periods_per_year) if is_long else None,
        "volatility": volatility(returns, periods_per_year),
        "sharpe": sharpe(returns, periods_per_year),
        "sharpe_per_bar": sharpe(returns),
        "sortino": sortino(returns, periods_per_year),
        "calmar": calmar(returns, periods_per_year) if is_long else None,
        "hit_rate": hit_rate(returns),
    }


def _longest_days(times: np.ndarray, equity: np.ndarray) -> float:
    """The most days from a peak to the next bar at or above it, or to the end."""
    peaks = np.flatnonzero(equity >= np.maximum.accumulate(equity))
    ends = np.append(peaks[1:], len(equity) - 1)
    below = ends - peaks > np.append(np.ones(len(peaks) - 1), 0)
    return float((times[ends] - times[peaks])[below].max(initial=0)) / DAY


def agent_figures(account: JoinedAccount) -> dict[str, Any]:
    """What only an account that trades has."""
    days = max(float(account.times[-1] - account.times[0]) / DAY, 1e-9)
    costs = {kind: float(amounts.sum()) for kind, amounts in account.costs.items()}
    return plain(
        {
            "turnover": float(account.turnover.sum()),
            "turnover_per_day": float(account.turnover.sum()) / days,
            "trades": int(account.trades.sum()),
            "trades_per_day": float(account.trades.sum()) / days,
            "exposure": float(account.exposure.mean()),
            "time_in_market": float((account.exposed > 0).mean()),
            "costs": {**costs, "total": sum(costs.values())},
            "costs_of_initial_equity": sum(costs.values()) / float(account.equity["agent"][0]),
        }
    )


def plain(value: Any) -> Any:
    """The same with None for what is not finite, for JSON."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
