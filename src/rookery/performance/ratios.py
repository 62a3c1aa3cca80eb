"""Ratios of a series of returns, and its drawdowns. A ratio takes an array (..., periods), along its last axis.

Nothing is annualised unless `periods_per_year` is given: without it, a ratio is per period of the returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.errors import OptionError

YEAR = 365 * 86_400
FOREX_YEAR = 52 * 5 * 86_400  # 24 hours on five days of 52 weeks
SESSIONS_PER_YEAR = 252
SESSION_HOURS = {"XNYS": 6.5, "XNAS": 6.5}
NO_SPREAD = 1e-12  # a standard deviation below this part of the largest return is rounding


def periods_per_year(timeframe: int, calendar: str = "24/7", session_hours: float | None = None) -> float:
    """How many bars a year has, to annualise with.

    Args:
        timeframe: The length of a bar in seconds.
        calendar: "24/7" counts 365 days, "forex" 52 weeks of five days of 24 hours, and an exchange such as "XNYS" 252
            sessions.
        session_hours: The hours of a session, for bars within the day. It is known for XNYS and XNAS.

    >>> periods_per_year(300), periods_per_year(3600, "forex"), periods_per_year(86_400, "XNYS")
    (105120.0, 6240.0, 252.0)
    """
    if timeframe <= 0:
        raise OptionError(f"timeframe={timeframe!r}: give the length of a bar in seconds, such as 300")
    if calendar in ("24/7", "forex"):
        return (YEAR if calendar == "24/7" else FOREX_YEAR) / timeframe
    if timeframe >= 86_400:
        return SESSIONS_PER_YEAR / max(1.0, timeframe * 5 / (7 * 86_400))
    hours = session_hours or SESSION_HOURS.get(calendar)
    if hours is None:
        raise OptionError(
            f"how many bars of {timeframe} seconds a year of {calendar} has depends on its sessions: give session_hours"
        )
    return SESSIONS_PER_YEAR * hours * 3600 / timeframe


def simple_returns(equity: np.ndarray) -> np.ndarray:
    """The change of each value as a part of the value before: one fewer than values.

    >>> simple_returns(np.array([100.0, 110.0, 99.0]))
    array([ 0.1, -0.1])
    """
    values = np.asarray(equity, np.float64)
    if values.shape[-1] < 2:
        raise OptionError(f"returns need at least 2 values, not {values.shape[-1]}")
    return values[..., 1:] / values[..., :-1] - 1


def total_return(returns: np.ndarray) -> Any:
    """What one unit has gained in the end, compounded.

    >>> round(total_return(np.array([0.1, -0.1])), 6)
    -0.01
    """
    return _number(np.prod(1 + _checked(returns), axis=-1) - 1)


def annual_return(returns: np.ndarray, periods_per_year: float) -> Any:
    """The return of a year that gives the same total, compounded; -1 after a total loss."""
    values = _checked(returns)
    growth = np.maximum(np.prod(1 + values, axis=-1), 0)
    return _number(growth ** (periods_per_year / values.shape[-1]) - 1)


def volatility(returns: np.ndarray, periods_per_year: float | None = None) -> Any:
    """The standard deviation of the returns (divided by their number - 1)."""
    return _number(_checked(returns).std(axis=-1, ddof=1) * _root(periods_per_year))


def sharpe(returns: np.ndarray, periods_per_year: float | None = None, risk_free: float = 0.0) -> Any:
    """The mean of the returns above `risk_free` (per period), divided by their standard deviation.

    It is 0 if the returns do not vary.

    >>> round(sharpe(np.array([0.01, 0.02, -0.01, 0.02])), 4)
    0.7071
    >>> round(sharpe(np.array([0.01, 0.02, -0.01, 0.02]), periods_per_year=252), 2)
    11.22
    """
    values = _checked(returns) - risk_free
    spread = values.std(axis=-1, ddof=1)
    return _quotient(values.mean(axis=-1), spread, np.abs(values).max(axis=-1), 0.0, periods_per_year)


def sortino(returns: np.ndarray, periods_per_year: float | None = None, target: float = 0.0) -> Any:
    """The mean of the returns above `target` (per period), divided by the root mean square of those below it.

    All periods count in the mean square. It is infinite if no return is below the target and some are above it.
    """
    values = _checked(returns) - target
    spread = np.sqrt(np.square(np.minimum(values, 0)).mean(axis=-1))
    return _quotient(values.mean(axis=-1), spread, np.abs(values).max(axis=-1), np.inf, periods_per_year)


def calmar(returns: np.ndarray, periods_per_year: float) -> Any:
    """The annual return divided by the largest drawdown; infinite without a drawdown, and 0 without any return."""
    values = _checked(returns)
    equity = np.concatenate([np.ones((*values.shape[:-1], 1)), np.cumprod(1 + values, axis=-1)], axis=-1)
    deepest = (1 - equity / np.maximum.accumulate(equity, axis=-1)).max(axis=-1)
    return _quotient(annual_return(values, periods_per_year), deepest, np.float64(0), np.inf, None)


def hit_rate(returns: np.ndarray) -> Any:
    """The part of the returns other than 0 that are gains; 0 if all are 0.

    >>> hit_rate(np.array([0.1, -0.1, 0.0, 0.2, 0.1]))
    0.75
    """
    values = _checked(returns)
    moved = (values != 0).sum(axis=-1)
    return _number((values > 0).sum(axis=-1) / np.maximum(moved, 1))


def profit_factor(returns: np.ndarray) -> Any:
    """The sum of the gains divided by the sum of the losses; infinite without losses, and 0 without any return."""
    values = _checked(returns)
    gains, losses = np.maximum(values, 0).sum(axis=-1), -np.minimum(values, 0).sum(axis=-1)
    return _quotient(gains, losses, np.float64(0), np.inf, None)


def _checked(returns: np.ndarray) -> np.ndarray:
    values = np.asarray(returns, np.float64)
    if values.ndim == 0 or values.shape[-1] < 2:
        raise OptionError("a ratio needs at least 2 returns")
    if not np.isfinite(values).all():
        raise OptionError("a return is not finite: remove it, or find out where it comes from")
    return values


def _quotient(mean: Any, spread: Any, largest: Any, without: float, periods: float | None) -> Any:
    """The mean by the spread; `without` (with the sign of the mean) where there is no spread, 0 where no mean."""
    none = np.asarray(spread) <= NO_SPREAD * largest
    ratio = np.divide(mean, spread, where=~none, out=np.zeros_like(np.asarray(mean, np.float64)))
    if without:
        ratio = np.where(none & (np.asarray(mean) != 0), np.copysign(without, mean), ratio)
    return _number(ratio * _root(periods))


def _root(periods: float | None) -> float:
    if periods is None:
        return 1.0
    if not periods > 0:
        raise OptionError(f"periods_per_year={periods!r}: give a number above 0")
    return float(np.sqrt(periods))


def _number(value: Any) -> Any:
    """A float for one series, an array for several."""
    return float(value) if np.ndim(value) == 0 else value


# --- drawdowns: how far and for how long the equity was below its peak ------------------------------------------------


@dataclass(frozen=True)
class Drawdown:
    """A fall from a peak.

    Attributes:
        depth: The largest loss since the peak, as a part of it; 0 if the equity never fell.
        peak: The row of the peak.
        bottom: The row of the largest loss.
        recovered: The first row after it at or above the peak; None if there is none.
        length: The rows from the peak to the recovery, or to the end of the series.
    """

    depth: float
    peak: int
    bottom: int
    recovered: int | None
    length: int


def drawdowns(equity: np.ndarray) -> np.ndarray:
    """The loss since the highest value so far, as a part of it, for each row.

    >>> drawdowns(np.array([100.0, 80.0, 120.0, 90.0]))
    array([0.  , 0.2 , 0.  , 0.25])
    """
    values = np.asarray(equity, np.float64)
    if values.shape[-1] < 1 or not np.isfinite(values).all() or not (values[..., 0] > 0).all():
        raise OptionError("the equity must be finite, and above 0 in its first row")
    return 1 - values / np.maximum.accumulate(values, axis=-1)


def max_drawdown(equity: np.ndarray) -> Drawdown:
    """The deepest drawdown; the first one, if several are equally deep.

    >>> max_drawdown(np.array([100.0, 80.0, 90.0, 100.0, 95.0]))
    Drawdown(depth=0.2, peak=0, bottom=1, recovered=3, length=3)
    """
    falls = drawdowns(equity)
    bottom = int(falls.argmax())
    peak = int(np.flatnonzero(falls[: bottom + 1] == 0)[-1])
    later = np.flatnonzero(falls[bottom:] == 0)
    recovered = bottom + int(later[0]) if len(later) else None
    end = len(falls) - 1 if recovered is None else recovered
    return Drawdown(round(float(falls[bottom]), 15), peak, bottom, recovered, end - peak)


def longest_drawdown(equity: np.ndarray) -> int:
    """The most rows from a peak to its recovery, or to the end of the series.

    >>> longest_drawdown(np.array([100.0, 80.0, 90.0, 100.0, 95.0]))
    3
    """
    falls = drawdowns(equity)
    at_peak = np.flatnonzero(falls == 0)
    ends = np.append(at_peak[1:], len(falls) - 1)
    under = ends - at_peak > np.append(np.ones(len(at_peak) - 1), 0)  # the next row is below the peak
    return int((ends - at_peak)[under].max(initial=0))
