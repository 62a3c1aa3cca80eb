"""Files of signals: a time, a target, and a symbol if there are several. A signal holds until the next one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.data.dataset import Bars, Dataset
from rookery.data.importing.sources import ImportOptions, SourceTable, find_columns, plain_name
from rookery.data.importing.times import seconds
from rookery.errors import DataError
from rookery.extras import load_polars

SIGNALS = ("signal", "target", "position", "weight", "side", "action")
WORDS = {"long": 1.0, "buy": 1.0, "short": -1.0, "sell": -1.0, "flat": 0.0, "exit": 0.0, "close": 0.0, "none": 0.0}


class Signals:
    """A rule that follows signals. The target after a bar is the last signal that was known when it was complete."""

    def __init__(self, signals: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
        self._signals = signals

    def __call__(self, bars: Bars) -> np.ndarray:
        times, targets = self._signals.get(bars.symbol, self._signals.get("", (np.empty(0), np.empty(0))))
        last = np.searchsorted(times, bars.times, side="right") - 1
        return np.where(last >= 0, targets[np.maximum(last, 0)], 0.0) if len(times) else np.zeros(len(bars))


def read_signals(path: Path, data: Dataset, time_is: str = "start") -> Signals:
    """The signals of a file. With `time_is="start"` a signal has the time at which its bar begins, as in the files of
    most sources: it is known when the bar is complete."""
    polars, place = load_polars(), printable(path)
    try:
        frame = polars.read_csv(path, infer_schema=False) if path.suffix == ".csv" else polars.read_parquet(path)
    except Exception as error:  # noqa: BLE001 - polars raises errors of many kinds
        raise DataError(f"{place}: cannot be read: {str(error).splitlines()[0][:160]}") from None
    names = {plain_name(name): name for name in frame.columns}
    columns = find_columns(frame.columns)
    signal = next((names[name] for name in SIGNALS if name in names), None)
    if "time" not in columns or signal is None:
        raise DataError(f"{place}: give columns time and signal; the columns are {', '.join(frame.columns)}")
    table = SourceTable(str(path), "signals", frame, np.arange(len(frame)) + 2, "line")
    times, _ = seconds(table, columns["time"], columns.get("clock"), ImportOptions(timezone=_zone(data)))
    known = times + (data.timeframe if time_is == "start" else 0)
    targets = _targets(table, frame[signal])
    symbols = [""] * len(frame) if "symbol" not in columns else frame[columns["symbol"]].to_list()
    return Signals(_by_symbol(table, symbols, known, targets, data))


def _zone(data: Dataset) -> str | None:
    """The time zone in which the bars were imported, for signals that name none."""
    return next((str(entry["timezone"]) for entry in data.history if "timezone" in entry), None)


def _targets(table: SourceTable, series: Any) -> np.ndarray:
    polars = load_polars()
    texts = series.cast(polars.String).str.strip_chars().str.to_lowercase()
    numbers = texts.cast(polars.Float64, strict=False).fill_null(float("nan")).to_numpy().copy()
    for word, value in WORDS.items():
        numbers[(texts == word).fill_null(False).to_numpy()] = value
    words = ", ".join(WORDS)
    table.refuse_where(~np.isfinite(numbers), lambda row: f"{series[row]!r} is not a signal: give -1 to 1, or {words}")
    table.refuse_where(np.abs(numbers) > 1, lambda row: f"the signal {numbers[row]:g} is not from -1 to 1")
    return numbers


def _by_symbol(
    table: SourceTable, symbols: list[str], times: np.ndarray, targets: np.ndarray, data: Dataset
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found = {}
    for symbol in dict.fromkeys(symbols):
        rows = np.array([name == symbol for name in symbols])
        if symbol and symbol not in data.symbols:
            raise DataError(
                f"{printable(table.place)}: there are no bars of {symbol}; they are of {', '.join(data.symbols)}"
            )
        order = np.argsort(times[rows], kind="stable")
        found[symbol] = times[rows][order], targets[rows][order]
    return found
