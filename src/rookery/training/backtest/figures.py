"""The figures of one account: returns, ratios, drawdowns. A figure that does not exist, such as the Sharpe ratio of an
account that never moved, is None."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rookery.training.backtest.calendar_periods import YEAR
from rookery.training.backtest.joined_account import JoinedAccount

SHORTEST_YEAR = 90 * 86_400  # seconds from which on a return is annualised; of a week it would be a fantasy


def account_figures(account: JoinedAccount, strategy: str, periods_per_year: float) -> dict[str, Any]:
    """The figures of the agent, or of an account that it is compared with."""
    returns, equity = account.returns(strategy), account.equity[strategy]
    depth, length = _drawdown(equity)
    seconds = float(account.times[-1] - account.times[0])
    total = float(equity[-1] / equity[0] - 1)
    a_year = (1 + total) ** (YEAR / seconds) - 1 if seconds >= SHORTEST_YEAR and total > -1 else None
    root = math.sqrt(periods_per_year)
    sharpe = sharpe_of(returns)
    moved = returns[returns != 0]
    return plain(
        {
            "total_return": total,
            "annual_return": a_year,
            "volatility": float(returns.std(ddof=1)) * root if len(returns) > 1 else None,
            "sharpe": sharpe * root,
            "sharpe_per_bar": sharpe,
            "sortino": _sortino(returns) * root,
            "calmar": _calmar(returns, depth, periods_per_year),
            "max_drawdown": depth,
            "drawdown_bars": length,
            "drawdown_days": _longest_days(account.times, equity),
            "hit_rate": float((moved > 0).mean()) if len(moved) else None,
            "final_equity": float(equity[-1]),
        }
    )


def agent_figures(account: JoinedAccount) -> dict[str, Any]:
    """What only an account that trades has."""
    days = max(float(account.times[-1] - account.times[0]) / 86_400, 1e-9)
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


def sharpe_of(returns: np.ndarray) -> float:
    """Mean by standard deviation of returns; NaN where they do not vary."""
    deviation = returns.std(ddof=1) if len(returns) > 1 else 0.0
    return float(returns.mean() / deviation) if deviation > 0 else math.nan


def _sortino(returns: np.ndarray) -> float:
    downside = math.sqrt(float(np.mean(np.minimum(returns, 0.0) ** 2))) if len(returns) else 0.0
    return float(returns.mean()) / downside if downside > 0 else math.nan


def _calmar(returns: np.ndarray, depth: float, periods_per_year: float) -> float:
    return float(returns.mean()) * periods_per_year / depth if depth > 0 else math.nan


def _drawdown(equity: np.ndarray) -> tuple[float, int]:
    """The deepest fall from a peak, as a part of it, and the most bars below a peak."""
    peaks = np.maximum.accumulate(equity)
    below = equity < peaks
    starts = np.maximum.accumulate(np.where(below, 0, np.arange(len(equity))))
    longest = int((np.arange(len(equity)) - starts).max())
    return float(np.max(1 - equity / np.where(peaks > 0, peaks, 1.0))), longest


def _longest_days(times: np.ndarray, equity: np.ndarray) -> float:
    """The most days below a peak."""
    below = equity < np.maximum.accumulate(equity)
    starts = np.maximum.accumulate(np.where(below, 0, np.arange(len(equity))))
    return float((times - times[starts]).max()) / 86_400
