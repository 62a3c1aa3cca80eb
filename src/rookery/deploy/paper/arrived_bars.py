"""Bars that have come: joining them, and writing them as lines of a log."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from rookery.data.dataset import Bars, Dataset
from rookery.errors import DataError


class Arrival(NamedTuple):
    """Bars that have become complete.

    Attributes:
        dataset: All bars so far and maybe later ones; None if there are no others than before.
        times: When the new bars were complete, oldest first.
        is_live: Whether orders for all but the last of them would be too late.
    """

    dataset: Dataset | None
    times: tuple[int, ...]
    is_live: bool


class BarSource(Protocol):
    """Where bars come from."""

    def arrivals(self, known: Dataset) -> Iterator[Arrival]:
        """Bars after the known ones, as they come. A KillSwitch if they do not."""


def joined(known: Dataset, added: Dataset) -> Dataset:
    """Known bars, and those of `added` that are newer than all of them."""
    missing = [name for name in known.bars[0].columns if name not in added.column_names]
    if missing:
        raise DataError(f"{added.place or 'the data'}: the column {missing[0]!r} is missing, which earlier bars have")
    later = added.select(known.symbols, start=last_time(known))
    return replace(known, bars=tuple(map(_concatenated, known.bars, later.bars)))


def last_time(dataset: Dataset) -> int:
    """When the newest bar of any symbol is complete."""
    return max(int(bars.times[-1]) for bars in dataset.bars if len(bars))


def all_times(dataset: Dataset) -> np.ndarray:
    """When any symbol has a bar, each time once."""
    return np.unique(np.concatenate([bars.times for bars in dataset.bars]))


def bars_at(dataset: Dataset, time: int) -> dict[str, list[float | None]]:
    """The bars that are complete at a time, by symbol: the numbers of their columns; None for one that is missing."""
    found = {}
    for bars in dataset.bars:
        row = int(np.searchsorted(bars.times, time))
        if row < len(bars) and bars.times[row] == time:
            numbers = [float(column[row]) for column in bars.columns.values()]
            found[bars.symbol] = [number if math.isfinite(number) else None for number in numbers]
    return found


def with_lines(history: Dataset, lines: Sequence[Mapping[str, Any]]) -> Dataset:
    """The history, and the bars of lines of a log."""
    rows: dict[str, list[tuple[int, list[float | None]]]] = {symbol: [] for symbol in history.symbols}
    for line in lines:
        for symbol, values in line["bars"].items():
            rows[symbol].append((line["time"], values))
    added = []
    for bars in history.bars:
        times = np.array([time for time, _ in rows[bars.symbol]], np.int64)
        values = np.array([values for _, values in rows[bars.symbol]], np.float64).reshape(-1, len(bars.columns))
        columns = {name: values[:, number] for number, name in enumerate(bars.columns)}
        added.append(Bars(bars.symbol, times, columns))
    return replace(history, bars=tuple(map(_concatenated, history.bars, added)))


def _concatenated(one: Bars, other: Bars) -> Bars:
    columns = {name: np.concatenate([one[name], other[name]]) for name in one.columns}
    return Bars(one.symbol, np.concatenate([one.times, other.times]), columns)
