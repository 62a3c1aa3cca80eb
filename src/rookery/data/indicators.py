"""What computes features: TA-Lib's functions by name and period ("rsi_14", "bbands_20", "macd_12_26_9"), and what it
does not have: rolling volume weighted price, clock, regimes. Row t uses rows up to t only."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import Any

import numpy as np

from rookery.errors import DataError, MissingExtra

NEEDS_MORE = {"MAVP": "it needs a column of periods"}  # functions that bars alone cannot feed
DAY, MONDAY = 86_400, 4 * 86_400  # the first Monday of the clock was 5 January 1970
SHORT_PART = 5  # a regime compares the last fifth of its window with all of it
CALM, BUSY = 0.75, 1.25  # below and above: a regime of its own
TREND = 1.0  # standard deviations of a random walk
REGIME_PERIOD = 120


@dataclass(frozen=True)
class Indicator:
    """One call of a TA-Lib function.

    Attributes:
        name: As it was requested, such as "bbands_20".
        function: TA-Lib's name, such as "BBANDS".
        inputs: The columns of bars that it reads, in order.
        parameters: Its numbers by name, such as {"timeperiod": 20}; the others have TA-Lib's defaults.
        outputs: The names of all columns that it gives.
        columns: Those of them that were requested.
    """

    name: str
    function: str
    inputs: tuple[str, ...]
    parameters: Mapping[str, int | float]
    outputs: tuple[str, ...]
    columns: tuple[str, ...]

    @cached_property
    def warm_up(self) -> int:
        """The number of first rows without a value."""
        return int(abstract(self.function, self.parameters).lookback)

    def compute(self, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The asked columns, with NaN in the rows of the warm-up."""
        inputs = [np.ascontiguousarray(columns[name], np.float64) for name in self.inputs]
        results = getattr(_load_talib(), self.function)(*inputs, **self.parameters)
        arrays = results if isinstance(results, (tuple, list)) else (results,)
        found = {}
        for name, array in zip(self.outputs, arrays, strict=True):
            if name in self.columns:
                found[name] = array.astype(np.float64)
                found[name][: self.warm_up] = np.nan  # TA-Lib writes 0 there if a function gives integers
        return found


@cache
def find_indicator(name: str) -> Indicator | None:
    """The TA-Lib function, numbers and outputs that a name means, or None if no function has such a name.

    >>> found = find_indicator("bbands_20")
    >>> found.function, dict(found.parameters), found.columns
    ('BBANDS', {'timeperiod': 20}, ('bbands_20_upper', 'bbands_20_middle', 'bbands_20_lower'))
    >>> find_indicator("macd_signal").columns, find_indicator("linearreg_angle_14").function
    (('macd_signal',), 'LINEARREG_ANGLE')
    """
    words = name.split("_")
    for count in range(len(words), 0, -1):
        function = "_".join(words[:count]).upper()
        if function in function_names():
            return _indicator(name, function, words[count:])
    return None


def _indicator(name: str, function: str, words: list[str]) -> Indicator:
    if function in NEEDS_MORE:
        raise DataError(f"the feature {name!r} cannot be computed from bars: {NEEDS_MORE[function]}")
    numbers = [word for word in words if re.fullmatch(r"\d+(\.\d+)?", word)]
    base, label = "_".join([function.lower(), *numbers]), "_".join(words[len(numbers) :])
    parameters = _parameters(name, function, numbers)
    about = abstract(function, parameters)
    labels = [_label(function, output) for output in about.output_names] if len(about.output_names) > 1 else [""]
    outputs = tuple("_".join(filter(None, (base, each))) for each in labels)
    if words[: len(numbers)] != numbers or (label and label not in labels):
        raise DataError(f"{name!r} is not a feature: {base} gives {', '.join(outputs)}")
    inputs = [(each,) if isinstance(each, str) else tuple(each) for each in about.input_names.values()]
    wanted = (name,) if label else outputs
    return Indicator(name, function, sum(inputs, ()), parameters, outputs, wanted)


def _parameters(name: str, function: str, numbers: list[str]) -> dict[str, int | float]:
    """The numbers of a name as the function's parameters, in TA-Lib's order."""
    defaults = abstract(function, {}).parameters
    if len(numbers) > len(defaults):
        has = f"the parameters {', '.join(defaults)}" if defaults else "no parameters"
        raise DataError(f"{name!r} is not a feature: TA-Lib's {function} has {has}")
    parameters: dict[str, int | float] = {}
    for (key, default), text in zip(defaults.items(), numbers, strict=False):
        if isinstance(default, int) and "." in text:
            raise DataError(f"{name!r} is not a feature: {key} of TA-Lib's {function} is an integer, not {text}")
        parameters[key] = type(default)(text)
    if abstract(function, parameters).lookback < 0:  # TA-Lib's sign for a wrong number
        given = ", ".join(f"{key}={value}" for key, value in parameters.items())
        raise DataError(f"{name!r} is not a feature: TA-Lib's {function} refuses {given}")
    return parameters


def _label(function: str, output: str) -> str:
    """The suffix of a column: "upperband" of BBANDS is "upper", "macdsignal" of MACD "signal", "macd" nothing."""
    return output.lower().removeprefix(function.lower()).removesuffix("band")


def abstract(function: str, parameters: Mapping[str, Any]) -> Any:
    """TA-Lib's description of a function: inputs, parameters, outputs, rows of warm-up."""
    return _load_talib().abstract.Function(function, **parameters)


@cache
def function_names() -> frozenset[str]:
    return frozenset(_load_talib().get_functions())


@cache
def _load_talib() -> ModuleType:
    """Import TA-Lib. It takes a second or two if pandas is installed, so it is imported when a feature needs it."""
    try:
        import talib
        import talib.abstract
    except ImportError as error:
        raise MissingExtra(
            f"features are computed with TA-Lib, which cannot be imported ({error}): pip install 'rookery[data]'"
        ) from None
    return talib


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
    volume = _rolling_sum(columns["volume"], period)
    weighted = np.divide(_rolling_sum(typical * columns["volume"], period), volume, where=volume > 0, out=volume.copy())
    return np.where(volume > 0, weighted, _rolling_sum(typical, period) / period)


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
    spread = _rolling_sum(np.abs(change), period) * np.sqrt(np.pi / (2 * period))
    return _signs(_rolling_sum(change, period), -TREND * spread, TREND * spread)


def _level(values: np.ndarray, period: int) -> np.ndarray:
    """The mean of the last fifth of the window against the mean of all of it, as -1, 0 or 1."""
    short = max(1, period // SHORT_PART)
    usual = _rolling_sum(values, period) / period
    return _signs(_rolling_sum(values, short) / short, CALM * usual, BUSY * usual)


def _signs(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    signs = (values > high).astype(np.float64) - (values < low)
    return np.where(np.isnan(high), np.nan, signs)


def returns(close: np.ndarray) -> np.ndarray:
    """The change of each bar's close as a part of the close before; the first is NaN."""
    change = np.full(len(close), np.nan)
    change[1:] = close[1:] / close[:-1] - 1
    return change


def _rolling_sum(values: np.ndarray, period: int) -> np.ndarray:
    """The sum of each row and the rows before it, `period` in all; NaN in the first rows.

    It adds row by row in a fixed order: differences of running totals would carry the rounding of large old values.

    >>> _rolling_sum(np.array([1.0, 2.0, 3.0, 4.0]), 2)
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
