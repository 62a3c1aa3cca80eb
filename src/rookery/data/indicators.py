"""TA-Lib's functions by name and period: "rsi_14", "bbands_20", "macd_12_26_9", "bbands_20_upper"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import Any

import numpy as np

from rookery.errors import DataError, MissingExtra

NEEDS_MORE = {"MAVP": "it needs a column of periods"}  # functions that bars alone cannot feed


@dataclass(frozen=True)
class Indicator:
    """One call of a TA-Lib function.

    Attributes:
        name: As it was asked for, such as "bbands_20".
        function: TA-Lib's name, such as "BBANDS".
        inputs: The columns of bars that it reads, in order.
        parameters: Its numbers by name, such as {"timeperiod": 20}; the others have TA-Lib's defaults.
        outputs: The names of all columns that it gives.
        columns: Those of them that were asked for.
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
        results = getattr(load_talib(), self.function)(*inputs, **self.parameters)
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
        raise DataError(f"{name!r} is no feature: {base} gives {', '.join(outputs)}")
    inputs = [(each,) if isinstance(each, str) else tuple(each) for each in about.input_names.values()]
    wanted = (name,) if label else outputs
    return Indicator(name, function, sum(inputs, ()), parameters, outputs, wanted)


def _parameters(name: str, function: str, numbers: list[str]) -> dict[str, int | float]:
    """The numbers of a name as the function's parameters, in TA-Lib's order."""
    defaults = abstract(function, {}).parameters
    if len(numbers) > len(defaults):
        has = f"the parameters {', '.join(defaults)}" if defaults else "no parameters"
        raise DataError(f"{name!r} is no feature: TA-Lib's {function} has {has}")
    parameters: dict[str, int | float] = {}
    for (key, default), text in zip(defaults.items(), numbers, strict=False):
        if isinstance(default, int) and "." in text:
            raise DataError(f"{name!r} is no feature: {key} of TA-Lib's {function} is an integer, not {text}")
        parameters[key] = type(default)(text)
    if abstract(function, parameters).lookback < 0:  # TA-Lib's sign for a wrong number
        given = ", ".join(f"{key}={value}" for key, value in parameters.items())
        raise DataError(f"{name!r} is no feature: TA-Lib's {function} refuses {given}")
    return parameters


def _label(function: str, output: str) -> str:
    """The suffix of a column: "upperband" of BBANDS is "upper", "macdsignal" of MACD "signal", "macd" nothing."""
    return output.lower().removeprefix(function.lower()).removesuffix("band")


def abstract(function: str, parameters: Mapping[str, Any]) -> Any:
    """TA-Lib's description of a function: inputs, parameters, outputs, rows of warm-up."""
    return load_talib().abstract.Function(function, **parameters)


@cache
def function_names() -> frozenset[str]:
    return frozenset(load_talib().get_functions())


@cache
def load_talib() -> ModuleType:
    """Import TA-Lib. It takes a second or two if pandas is installed, so it is imported when a feature needs it."""
    try:
        import talib
        import talib.abstract
    except ImportError as error:
        raise MissingExtra(
            f"features are computed with TA-Lib, which cannot be imported ({error}): pip install 'rookery[data]'"
        ) from None
    return talib
