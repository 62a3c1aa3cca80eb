"""Features that TA-Lib does not have: rolling volume weighted price, clock, regimes. Row t uses rows up to t only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

DAY, MONDAY = 86_400, 4 * 86_400  # the first Monday of the clock was 5 January 1970
SHORT_PART = 5  # a regime compares the last fifth of its window with all of it
CALM, BUSY = 0.75, 1.25  # below and above: a regime of its own
TREND = 1.0  # standard deviations of a random walk


@dataclass(frozen=True)
class OwnFeature:
    """A feature with at most one number, its period.

    Attributes:
        compute: From times, columns and period to one value per row, with NaN in the rows of the warm-up.
        period: The period if the name has no number; 0 if it takes none.
        lags: How many rows before the period it reads: 1 if it is computed from returns.
        shortest: The smallest period.
    """

    compute: Callable[[np.ndarray, Mapping[str, np.ndarray], int], np.ndarray]
    period: int = 0
    lags: int = 0
    shortest: int = 1


def vwap(times: np.ndarray, columns: Mapping[str, np.ndarray], period: int) -> np.ndarray:
    """The mean typical price (high + low + close) / 3 of the last bars, weighted by volume.

    Where none of these bars has volume, their plain mean.
    """
    typical = (columns["high"] + columns["low"] + columns["close"]) / 3
    volume = rolling_sum(columns["volume"], period)
    weighted = np.divide(rolling_sum(typical * columns["volume"], period), volume, where=volume > 0, out=volume.copy())
    return np.where(volume > 0, weighted, rolling_sum(typical, period) / period)


def volatility_regime(times: np.ndarray, columns: Mapping[str, np.ndarray], period: int) -> np.ndarray:
    """1 where the last bars moved more than usual, -1 where they moved less, else 0: by their mean absolute return."""
    return _level(np.abs(returns(columns["close"])), period)


def volume_regime(times: np.ndarray, columns: Mapping[str, np.ndarray], period: int) -> np.ndarray:
    """1 where the last bars had more volume than usual, -1 where they had less, else 0; 0 without any volume."""
    return _level(columns["volume"], period)


def trend_regime(times: np.ndarray, columns: Mapping[str, np.ndarray], period: int) -> np.ndarray:
    """1 or -1 where the price rose or fell by more than one standard deviation of a random walk, else 0.

    The standard deviation is that of `period` independent normal returns with the window's mean absolute return.
    """
    change = returns(columns["close"])
    spread = rolling_sum(np.abs(change), period) * np.sqrt(np.pi / (2 * period))
    return _signs(rolling_sum(change, period), -TREND * spread, TREND * spread)


def _level(values: np.ndarray, period: int) -> np.ndarray:
    """The mean of the last fifth of the window against the mean of all of it, as -1, 0 or 1."""
    short = max(1, period // SHORT_PART)
    usual = rolling_sum(values, period) / period
    return _signs(rolling_sum(values, short) / short, CALM * usual, BUSY * usual)


def _signs(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    signs = (values > high).astype(np.float64) - (values < low)
    return np.where(np.isnan(high), np.nan, signs)


def returns(close: np.ndarray) -> np.ndarray:
    """The change of each bar's close as a part of the close before; the first is NaN."""
    change = np.full(len(close), np.nan)
    change[1:] = close[1:] / close[:-1] - 1
    return change


def rolling_sum(values: np.ndarray, period: int) -> np.ndarray:
    """The sum of each row and the rows before it, `period` in all; NaN in the first rows.

    It adds row by row in a fixed order: differences of running totals would carry the rounding of large old values.

    >>> rolling_sum(np.array([1.0, 2.0, 3.0, 4.0]), 2)
    array([nan,  3.,  5.,  7.])
    """
    total = np.full(len(values), np.nan)
    rows = len(values) - period + 1
    if rows > 0:
        total[period - 1 :] = values[:rows]
        for start in range(1, period):
            total[period - 1 :] += values[start : start + rows]
    return total


def clock(function: Callable[[np.ndarray], np.ndarray], unit: int, count: int, offset: int = 0) -> OwnFeature:
    """The sine or cosine of the time at which the bar is complete, in UTC: `unit` seconds, `count` of them a turn."""

    def compute(times: np.ndarray, columns: Mapping[str, np.ndarray], period: int) -> np.ndarray:
        return function(2 * np.pi * ((((times - offset) // unit) % count) / count))

    return OwnFeature(compute)


REGIME_PERIOD = 120
OWN = {
    "vwap": OwnFeature(vwap, 20),
    "volatility_regime": OwnFeature(volatility_regime, REGIME_PERIOD, lags=1, shortest=SHORT_PART),
    "volume_regime": OwnFeature(volume_regime, REGIME_PERIOD, shortest=SHORT_PART),
    "trend_regime": OwnFeature(trend_regime, REGIME_PERIOD, lags=1, shortest=2),
    **{name: clock(np.sin, 1, DAY) for name in ("hour_sin", "sin_hour")},
    **{name: clock(np.cos, 1, DAY) for name in ("hour_cos", "cos_hour")},
    **{name: clock(np.sin, DAY, 7, MONDAY) for name in ("weekday_sin", "sin_weekday")},
    **{name: clock(np.cos, DAY, 7, MONDAY) for name in ("weekday_cos", "cos_weekday")},
}
