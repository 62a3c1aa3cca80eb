"""Features of bars: columns computed from each bar and the bars before it, never from later ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from rookery.data.dataset import BAR_COLUMNS, Bars, Dataset
from rookery.data.indicators import OWN, Indicator, OwnFeature, find_indicator, function_names
from rookery.errors import DataError, MissingExtra

CRYPTO_FEATURES = (
    "macd", "macd_signal", "macd_hist", "rsi_14", "cci_14", "dx_14",
    "volatility_regime", "trend_regime", "volume_regime",
)  # fmt: skip
FOREX_FEATURES = (
    "rsi_14", "ema_10", "ema_20", "ema_50", "vwap_20", "hour_sin", "hour_cos", "weekday_sin", "weekday_cos",
)  # fmt: skip


def add_features(dataset: Dataset, names: str | Iterable[str]) -> Dataset:
    """The bars with more columns, computed for each symbol on its own.

    Names are `rsi_14`, `ema_10`, `macd`, `vwap_20`, `hour_sin`, `volatility_regime`, or any function of TA-Lib with its
    numbers, such as `natr_14` or `bbands_20_2_2`. A function with several results gives several columns: `macd` gives
    `macd`, `macd_signal` and `macd_hist`; `bbands_20` gives `bbands_20_upper`, `bbands_20_middle`, `bbands_20_lower`.
    The name of one of these columns gives that column alone. Features count bars, not time: a gap in the bars is not
    seen. The first rows, for which there are too few bars before, are NaN.

    >>> from rookery.data.dataset import Bars, Dataset
    >>> closes = np.array([1.0, 2.0, 4.0, 3.0])
    >>> columns = {name: closes for name in ("open", "high", "low", "close", "volume")}
    >>> data = add_features(Dataset((Bars("BTC", 300 * np.arange(4), columns),), 300), ["sma_2", "mom_1"])
    >>> data.features, data["BTC"]["sma_2"]
    (('sma_2', 'mom_1'), array([nan, 1.5, 3. , 3.5]))
    """
    wanted = _wanted(names)
    existing = {name for bars in dataset.bars for name in bars.columns}
    for name in wanted:
        for column in [name] if name in existing else feature_columns(name):
            if column in existing:
                raise DataError(f"{dataset.place or 'the data'}: the column {column!r} exists already; omit {name!r}")
    place = f"{dataset.place}: " if dataset.place else ""
    return replace(dataset, bars=tuple(_with_features(bars, wanted, place) for bars in dataset.bars))


def feature_columns(names: str | Iterable[str]) -> tuple[str, ...]:
    """The columns that `add_features` makes of these names, in order.

    >>> feature_columns(["macd", "rsi_14"])
    ('macd', 'macd_signal', 'macd_hist', 'rsi_14')
    """
    columns: dict[str, None] = {}
    for name in _wanted(names):
        found = _find_feature(name)
        columns.update(dict.fromkeys(found.columns if isinstance(found, Indicator) else (name,)))
    return tuple(columns)


def first_valid(bars: Bars | Dataset, columns: Sequence[str] | None = None) -> int:
    """The first row in which all these columns have a value; the number of rows if there is none.

    Without `columns`: all of them. For several symbols: the first row in which each of them has its values.
    """
    if isinstance(bars, Dataset):
        return max((first_valid(each, columns) for each in bars.bars), default=0)
    finite = np.ones(len(bars), bool)
    for name in bars.columns if columns is None else columns:
        if name not in bars.columns:
            raise DataError(f"{bars.symbol} has no column {name!r}; it has {', '.join(bars.columns)}")
        finite &= np.isfinite(bars[name])
    return int(finite.argmax()) if finite.any() else len(bars)


def memory(columns: Iterable[str]) -> int:
    """How many bars before its own the longest of these features is computed from. Other columns need none. Moving
    averages keep a trace of every earlier bar: the period counts.

    >>> memory(["close", "rsi_14", "volatility_regime"])
    120
    """
    return max((_warm_up(name) for name in columns if name not in BAR_COLUMNS), default=0)


def _warm_up(name: str) -> int:
    """The number of first rows without a value; 0 of a column that is not a feature."""
    try:
        found = _find_feature(name)
    except (DataError, MissingExtra):
        return 0
    return found.warm_up if isinstance(found, Indicator) else max(0, found[1] - 1 + found[0].lags)


def _find_feature(name: str) -> Indicator | tuple[OwnFeature, int]:
    """What computes a feature: a TA-Lib function, or one of rookery's own and its period."""
    base, _, number = name.rpartition("_") if re.search(r"\w_\d+$", name) else (name, "", "")
    if base in OWN:
        return OWN[base], _period(name, OWN[base], number)
    found = find_indicator(name)
    if found is None:
        raise DataError(
            f"{name!r} is not a feature: {_meant(base, number)}names are rsi_14, ema_10, macd, vwap_20, hour_sin, "
            "volatility_regime, or a function of TA-Lib and its period"
        )
    return found


def _meant(base: str, number: str) -> str:
    known = [*CRYPTO_FEATURES, *FOREX_FEATURES, *OWN, *(function.lower() for function in function_names())]
    near = difflib.get_close_matches(base, [name for name in known if not number or not name[-1].isdigit()], n=1)
    return f"did you mean {'_'.join(filter(None, (near[0], number)))}? " if near else ""


def _wanted(names: str | Iterable[str]) -> tuple[str, ...]:
    """Names in lower case, each once; a text may have several, separated by commas."""
    texts = names.split(",") if isinstance(names, str) else names
    return tuple(dict.fromkeys(str(name).strip().lower() for name in texts))


def _period(name: str, feature: OwnFeature, number: str) -> int:
    if number and not feature.period:
        raise DataError(f"{name!r} is not a feature: {name.removesuffix('_' + number)} takes no number")
    period = feature.period if not number else int(number)
    if feature.period and period < feature.shortest:
        raise DataError(f"{name!r} is not a feature: its shortest period is {feature.shortest}")
    return period


def _with_features(bars: Bars, names: Sequence[str], place: str) -> Bars:
    added: dict[str, np.ndarray] = {}
    for name in names:
        for column, values in _compute(bars, name, place).items():
            _check_values(bars, column, values, place)
            added[column] = values
    return bars.with_columns(added)


def _compute(bars: Bars, name: str, place: str) -> Mapping[str, np.ndarray]:
    found, warm_up = _find_feature(name), _warm_up(name)
    if warm_up >= len(bars):
        raise DataError(
            f"{place}{bars.symbol} has {len(bars)} bars, but the feature {name!r} has its first value in bar "
            f"{warm_up + 1}: take a shorter period or more bars"
        )
    if isinstance(found, Indicator):
        return found.compute(bars.columns)
    feature, period = found
    return {name: feature.compute(bars.times, bars.columns, period)}


def _check_values(bars: Bars, column: str, values: np.ndarray, place: str) -> None:
    """Refuse a column with holes: the functions of TA-Lib that divide by volume, or need values from -1 to 1."""
    finite = np.isfinite(values)
    start = int(finite.argmax()) if finite.any() else 0
    if finite[start:].all():
        return
    row = start + int(finite[start:].argmin())
    when = datetime.fromtimestamp(int(bars.times[row]), UTC).strftime("%Y-%m-%d %H:%M:%S")
    inputs = ", ".join(f"{name} {bars[name][row]:g}" for name in BAR_COLUMNS)
    raise DataError(
        f"{place}{bars.symbol}, row {row}, {when} UTC: the feature {column!r} has no finite value ({inputs}): omit it"
    )
