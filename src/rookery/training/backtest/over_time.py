"""An account over time: its Sharpe ratio in a moving window, its worst drawdowns, and how many years would be needed to
tell its result from luck."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.performance.worth import excess_moments, needed_periods
from rookery.training.backtest.figures import DAY, SIGNIFICANT, date_text
from rookery.training.backtest.joined_account import JoinedAccount

WINDOWS = (1, 7, 30, 91, 182, 365)  # days of a moving window
PART = 0.25  # of the account's time that a window may have
FEWEST = 30  # bars in a window
MOST_POINTS = 400  # that are kept
WORST = 5  # drawdowns that are named
NOTHING = {"sharpe_per_bar": 0.0, "observations": 1, "skewness": 0.0, "kurtosis": 3.0}


def rolling_sharpe(account: JoinedAccount, periods_per_year: float) -> dict[str, Any] | None:
    """The Sharpe ratio a year of the last bars, for the agent and for holding; None of an account that is too short."""
    bars, days = _window(account)
    if bars is None:
        return None
    kept = np.unique(np.linspace(bars, len(account), min(len(account) - bars + 1, MOST_POINTS)).astype(int))
    ratios = {name: _moving(account.returns(name), bars) * math.sqrt(periods_per_year) for name in ("agent", "hold")}
    whole = ratios["agent"]
    return {
        "bars": bars,
        "days": days,
        "least": float(whole.min()),
        "median": float(np.median(whole)),
        "most": float(whole.max()),
        "above_hold": float((whole > ratios["hold"]).mean()),
        "times": account.times[kept].tolist(),
        **{name: values[kept - bars].tolist() for name, values in ratios.items()},
    }


def _window(account: JoinedAccount) -> tuple[int | None, int]:
    """The length of the window, in bars and in days: the longest that is a small part of the account."""
    span = float(account.times[-1] - account.times[0]) / DAY
    for days in reversed(WINDOWS):
        bars = round(len(account) * days / span) if span > 0 else 0
        if days <= PART * span and bars >= FEWEST:
            return bars, days
    return None, 0


def _moving(returns: np.ndarray, bars: int) -> np.ndarray:
    """The Sharpe ratio of each stretch of so many returns; 0 where they do not vary."""
    centred = returns - returns.mean()  # so that differences of sums stay exact
    sums, squares = (np.concatenate([[0.0], np.cumsum(values)]) for values in (centred, centred**2))
    mean = (sums[bars:] - sums[:-bars]) / bars
    variance = np.maximum((squares[bars:] - squares[:-bars]) / bars - mean**2, 0.0) * bars / (bars - 1)
    varies = variance > 1e-12 * max(float(centred.var()), 1e-300)
    return np.where(varies, (mean + returns.mean()) / np.sqrt(np.where(varies, variance, 1.0)), 0.0)


def worst_drawdowns(account: JoinedAccount) -> list[dict[str, Any]]:
    """The deepest falls from a peak to the next value that is as high, the deepest first."""
    equity = account.equity["agent"]
    peaks = np.flatnonzero(equity >= np.maximum.accumulate(equity))
    ends = np.append(peaks[1:], len(equity))
    falls = [(first, end) for first, end in zip(peaks.tolist(), ends.tolist(), strict=True) if end - first > 1]
    depths = {(first, end): 1 - float(equity[first:end].min() / equity[first]) for first, end in falls}
    worst = sorted(falls, key=lambda fall: -depths[fall])[:WORST]
    return [_fall(account, first, end, depths[first, end]) for first, end in worst]


def _fall(account: JoinedAccount, first: int, end: int, depth: float) -> dict[str, Any]:
    """A drawdown from the bar of its peak to the bar at which it is over, if it is."""
    times, over = account.times, end < len(account.times)
    bottom, last = first + int(account.equity["agent"][first:end].argmin()), min(end, len(times) - 1)
    return {
        "depth": depth,
        "start": date_text(times[first]),
        "bottom": date_text(times[bottom]),
        "end": date_text(times[end]) if over else None,
        "days": float(times[last] - times[first]) / DAY,
        "from": int(times[first]),
        "to": int(times[last]),
    }


def significance(account: JoinedAccount, periods_per_year: float, attempts: int = 1) -> dict[str, Any]:
    """How many years of such bars would show that the account is better than its share of holding."""
    returns = (account.returns("agent"), account.returns("hold"))
    excess = excess_moments(*returns) if len(account) > 1 else NOTHING
    needed = needed_periods(excess, attempts, 1 - SIGNIFICANT)
    return {
        "excess_sharpe": excess["sharpe_per_bar"] * math.sqrt(periods_per_year),
        "attempts": attempts,
        "years": len(account) / periods_per_year,
        "years_needed": needed / periods_per_year,
    }


def significance_text(found: Mapping[str, Any]) -> str:
    """The same as a sentence."""
    ratio, years, needed = found["excess_sharpe"], found["years"], found["years_needed"]
    best = f", as the best of {found['attempts']:,} attempts" if found["attempts"] > 1 else ""
    if ratio is None or ratio <= 0:
        return f"nothing was earned beyond the share of holding (Sharpe ratio {ratio or 0:.2f} a year)"
    if needed is None:
        return f"no number of years is enough for a Sharpe ratio of {ratio:.2f} a year beyond holding{best}"
    return (
        f"a Sharpe ratio of {ratio:.2f} a year beyond holding needs {needed:,.3g} years to be significant{best}; these "
        f"are {years:,.3g}"
    )
