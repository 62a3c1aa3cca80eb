"""Columns of bars as numbers near 1 for a network. Each row uses itself and earlier rows only."""

from __future__ import annotations

import re

import numpy as np

from rookery.errors import OptionError

SCALINGS = ("relative", "power", "none")
# By the beginning of a column's name. Prices, and averages of them:
PRICE_LIKE = re.compile(
    r"(open|high|low|close|price|[dt]?ema|sma|wma|kama|trima|t3|vwap|bbands|midpoint|midprice|sar|ht_trendline|"
    r"avgprice|medprice|typprice|wclprice|linearreg(?!_slope|_angle)|tsf|min|max)(_|$)"
)
# Differences of prices:
DIFFERENCE = re.compile(r"(macd|mom|atr|trange|stddev|apo|plus_dm|minus_dm|linearreg_slope)")
FIXED = {"rsi": 1 / 64, "dx": 1 / 64, "adx": 1 / 64, "adxr": 1 / 64, "mfi": 1 / 64, "willr": 1 / 64, "stoch": 1 / 64,
         "plus_di": 1 / 64, "minus_di": 1 / 64, "aroon": 1 / 64, "cmo": 1 / 64, "ultosc": 1 / 64,
         "cci": 1 / 128}  # fmt: skip
VOLUME_ROWS = 20  # volume is compared with its mean over this many rows
RELATIVE = 64.0  # a change of 1.6 % becomes 1
LIMIT = 64.0  # of every scaled number


def scaled(name: str, column: np.ndarray, close: np.ndarray, scaling: str) -> np.ndarray:
    """One column of one symbol, float32.

    "relative": prices as their change against the close of the row before, which has no trend; "power": every column
    times a power of two that the first row decides, which keeps its shape; "none": as it is.

    >>> close = np.array([1.0, 2.0, 3.0])
    >>> scaled("close", close, close, "relative")
    array([nan, 64., 32.], dtype=float32)
    >>> scaled("close", 100 * close, close, "power")
    array([0.78125, 1.5625 , 2.34375], dtype=float32)
    """
    if scaling == "none":
        return column.astype(np.float32)
    if scaling == "power":
        return (column * _power(column)).astype(np.float32)
    if scaling != "relative":
        raise OptionError(f"scaling should be one of {', '.join(SCALINGS)}, got {scaling!r}")
    before = np.concatenate([[np.nan], close[:-1]])
    if name == "volume":
        values = column / np.maximum(_trailing_mean(column), 1e-12) - 1.0
    elif PRICE_LIKE.match(name):
        values = (column / before - 1.0) * RELATIVE
    elif DIFFERENCE.match(name):
        values = column / before * RELATIVE
    else:
        values = column * next((factor for start, factor in FIXED.items() if re.match(rf"{start}(_|\d|$)", name)), 1.0)
    return np.clip(values, -LIMIT, LIMIT).astype(np.float32)


def _power(column: np.ndarray) -> float:
    """The power of two that brings the first finite number that is not zero near 1."""
    found = column[np.isfinite(column) & (column != 0)][:1]
    return 1.0 if not len(found) else float(2.0 ** -np.round(np.log2(abs(found[0]))))


def _trailing_mean(column: np.ndarray) -> np.ndarray:
    """Of each row and the rows before it. The sums are exact over windows, so that no row depends on distant ones."""
    padded = np.concatenate([np.full(VOLUME_ROWS - 1, np.nan), column])
    windows = np.lib.stride_tricks.sliding_window_view(padded, VOLUME_ROWS)
    return np.nanmean(windows, axis=1)
