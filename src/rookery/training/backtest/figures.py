"""The figures of one account: returns, ratios, drawdowns. A figure that does not exist, such as the Sharpe ratio of an
account that never moved, is None."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rookery.data.calendars import timeframe_name
from rookery.errors import OptionError
from rookery.performance.ratios import (
    annual_return,
    calmar,
    hit_rate,
    longest_drawdown,
    max_drawdown,
    periods_per_year,
    sharpe,
    sortino,
    volatility,
)
from rookery.training.backtest.joined_account import JoinedAccount
from rookery.training.backtest.records import MarketFacts, WindowRecord

DAY, YEAR = 86_400, 365 * 86_400  # seconds
UNITS = ("year", "month", "week", "day", "hour")
MOST = 400  # periods that are worth listing
MONDAY = 4  # days from 1970-01-01, a Thursday, to the first Monday


def labels(times: np.ndarray, unit: str) -> np.ndarray:
    """The period of each bar, such as "2024-03" or "2024-03-05 14:00"; weeks are named by their Monday. A bar that is
    complete at midnight belongs to the day before.

    >>> labels(np.array([86_400, 86_401, 31 * 86_400 + 1]), "day").tolist()
    ['1970-01-01', '1970-01-02', '1970-02-01']
    """
    inside = (np.asarray(times, np.int64) - 1).astype("datetime64[s]")
    if unit == "week":
        days = inside.astype("datetime64[D]").astype(np.int64)
        return (days - (days - MONDAY) % 7).astype("datetime64[D]").astype(str)
    if unit == "hour":
        return np.char.add(np.char.replace(inside.astype("datetime64[h]").astype(str), "T", " "), ":00")
    return inside.astype(f"datetime64[{unit[0].upper()}]").astype(str)


def useful_units(times: np.ndarray) -> list[str]:
    """Units with at least two and not too many periods, the longest first; if there is none, the day."""
    count = {unit: len(np.unique(labels(times, unit))) for unit in UNITS}
    return [unit for unit in UNITS if 2 <= count[unit] <= MOST] or ["day"]


def bars_per_year(times: np.ndarray, timeframe: int, calendar: str) -> tuple[float, str]:
    """How many bars a year has, and how that was found out.

    >>> bars_per_year(np.arange(3), 3600, "24/7")
    (8760.0, '8,760 bars of 1h a year: 365 days of 24 hours')
    """
    how = {"24/7": "365 days of 24 hours", "forex": "52 weeks of 5 days of 24 hours"}.get(calendar, "252 sessions")
    try:
        bars = periods_per_year(timeframe, calendar)
    except OptionError:  # how long its sessions are is not known
        span = float(times[-1] - times[0]) if len(times) > 1 else 0.0
        bars = (len(times) - 1) * YEAR / span if span > 0 else YEAR / timeframe
        how = f"counted in the data, calendar {calendar}"
    return bars, f"{bars:,.0f} bars of {timeframe_name(timeframe)} a year: {how}"


def date_text(seconds: float) -> str:
    """A time as people read it.

    >>> date_text(0)
    '1970-01-01 00:00'
    """
    return str(np.datetime64(int(seconds), "s"))[:16].replace("T", " ")


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
            "exposure_long": _mean_weight(account, 1.0),
            "exposure_short": _mean_weight(account, -1.0),
            "most_exposed": float(account.exposure.max(initial=0.0)),
            "time_in_market": float((account.exposed > 0).mean()),
            "costs": {**costs, "total": sum(costs.values())},
            "costs_of_initial_equity": sum(costs.values()) / float(account.equity["agent"][0]),
        }
    )


def _mean_weight(account: JoinedAccount, side: float) -> float:
    """The mean value of all long or of all short positions, as a part of the equity."""
    return float(sum(np.maximum(side * weights, 0.0).mean() for weights in account.weights.values()))


def plain(value: Any) -> Any:
    """The same with None for what is not finite, for JSON."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


SIGNIFICANT = 0.05
FEW_BARS = 100
SHORT = 90  # days


def verdict(report: Mapping[str, Any]) -> str:
    """One sentence: whether the Sharpe ratio after costs is above that of buying and holding, and how sure that is."""
    return f"Beats hold after costs: {_answer(report)}."


def _answer(report: Mapping[str, Any]) -> str:
    agent, hold, p = report["agent"], report["hold"], report["certainty"]["p_value"]
    against = f"return {percent(agent['total_return'])} against {percent(hold['total_return'])}"
    if agent["final_equity"] <= 0:
        return f"no, the account was lost ({against})"
    if agent["trades"] == 0 and agent["exposure"] == 0:
        return f"no, the agent made no trade ({against})"
    if agent["sharpe"] is None or hold["sharpe"] is None or p is None:
        return f"not significant, there are too few bars to tell ({against})"
    ratios = f"Sharpe ratio {agent['sharpe']:.2f} against {hold['sharpe']:.2f}, p = {p:.3g}; {against}"
    if agent["sharpe"] <= hold["sharpe"]:
        return f"no ({ratios})"
    if p >= SIGNIFICANT:
        return f"not significant ({ratios})"
    return f"yes ({ratios})"


def notes(account: JoinedAccount, market: MarketFacts, records: Sequence[WindowRecord]) -> list[str]:
    """What a reader has to know to believe the right things."""
    found = []
    if market.synthetic:
        found.append("The data are synthetic: the result says nothing about a real market.")
    if market.costs_name == "none":
        found.append("Trading costs nothing here: no real account has this.")
    lost = np.flatnonzero(account.equity["agent"] <= 0)
    if len(lost):
        found.append(f"The account was lost on {date_text(account.times[lost[0]])}.")
    elif any(record.ruined for record in records):
        ends = [record.times[-1] for record in records if record.ruined]
        found.append(f"An account could not continue, first on {date_text(min(ends))}: its window ends there.")
    days = float(account.times[-1] - account.times[0]) / DAY
    if days < SHORT and len(account) >= FEW_BARS:
        found.append(f"The bars cover {days:.3g} days: ratios a year say what a year like these days would be.")
    if len(account) < FEW_BARS:
        bars = "is only 1 bar" if len(account) == 1 else f"are only {len(account)} bars"
        found.append(f"There {bars}: the figures say little.")
    if account.accounts > 1:
        found.append(f"{account.accounts} accounts of equal size, one per symbol, are added.")
    elif len(records) > 1:
        found.append(
            f"{len(records)} windows follow each other: each begins in cash with what the one before it ended with."
        )
    return [*found, *market.notes]


def percent(part: float | None, digits: int = 1) -> str:
    """
    >>> percent(0.1234), percent(-0.5, 0), percent(None)
    ('+12.3 %', '-50 %', '-')
    """
    return "-" if part is None else f"{100 * part:+.{digits}f} %"
