"""Bars in memory: one or more symbols, oldest bar first, times in UTC."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from rookery.errors import DataError

PRICES = ("open", "high", "low", "close")
BAR_COLUMNS = (*PRICES, "volume")
COST_COLUMNS = ("spread", "funding")


def frozen(values: np.ndarray) -> np.ndarray:
    """The values in one piece of memory that nobody can write to."""
    made = np.ascontiguousarray(values)
    made.flags.writeable = False
    return made


@dataclass(frozen=True)
class Bars:
    """The bars of one symbol.

    Attributes:
        symbol: Its name, such as "EURUSD".
        times: When each bar is complete: int64, seconds since 1970 in UTC, rising. Until that time nobody knows the
            bar, so no observation before it may contain it.
        columns: Name -> float64 array. First open, high, low, close and volume, then features, and optionally
            "funding" (rate that a long position pays at that bar) and "spread" (from the middle price to what is paid,
            as a part of it: half of the distance from bid to ask).
    """

    symbol: str
    times: np.ndarray
    columns: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, column: str) -> np.ndarray:
        return self.columns[column]

    def rows(self, which: slice | np.ndarray) -> Bars:
        """Some of the bars."""
        return replace(self, times=self.times[which], columns={name: c[which] for name, c in self.columns.items()})

    def with_columns(self, added: Mapping[str, np.ndarray]) -> Bars:
        """With more columns, or with others of the same names."""
        return replace(self, columns={**self.columns, **added})


@dataclass(frozen=True)
class Dataset:
    """Bars of several symbols with one timeframe.

    Attributes:
        bars: One per symbol. Symbols may begin and end at different times.
        timeframe: The length of a bar, in seconds.
        calendar: When the market is open: "24/7", "forex" (closed at weekends), or a name of `exchange_calendars`, such
            as "XNYS". A missing bar while it is closed is not a gap.
        one_price: Whether the source had one price per row: then open, high, low and close are equal.
        history: Which commands made it from which sources, oldest first.
        place: Where it was read from, for messages.
    """

    bars: tuple[Bars, ...]
    timeframe: int
    calendar: str = "24/7"
    one_price: bool = False
    history: tuple[Mapping[str, Any], ...] = ()
    place: str = field(default="", compare=False)

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(bars.symbol for bars in self.bars)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns that every symbol has, in the order of the first symbol."""
        first, *others = self.bars
        return tuple(name for name in first.columns if all(name in bars.columns for bars in others))

    @property
    def features(self) -> tuple[str, ...]:
        """The columns beside open, high, low, close and volume."""
        return tuple(name for name in self.column_names if name not in BAR_COLUMNS)

    @property
    def observed(self) -> tuple[str, ...]:
        """The features that somebody asked for: neither costs, nor columns that came with a file of others."""
        unnamed = {name for entry in self.history for name in entry.get("unnamed", ())}
        return tuple(name for name in self.features if name not in unnamed and name not in COST_COLUMNS)

    def __getitem__(self, symbol: str) -> Bars:
        for bars in self.bars:
            if bars.symbol == symbol:
                return bars
        raise DataError(f"{self.place or 'the data'}: there is no symbol {symbol!r}; it has {', '.join(self.symbols)}")

    def select(self, symbols: Sequence[str] | None = None, start: int | None = None, end: int | None = None) -> Dataset:
        """Some symbols, in the given order, and the bars that are complete after `start` and up to `end` (seconds)."""
        chosen = self.bars if symbols is None else tuple(self[symbol] for symbol in symbols)
        first, last = -(2**62) if start is None else start, 2**62 if end is None else end
        return replace(self, bars=tuple(bars.rows((first < bars.times) & (bars.times <= last)) for bars in chosen))

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the contents: symbols, times, columns, timeframe and calendar; not of the history."""
        digest = hashlib.sha256(repr((self.timeframe, self.calendar, self.one_price)).encode())
        for bars in self.bars:
            digest.update(repr((bars.symbol, tuple(bars.columns), len(bars))).encode())
            for array in (bars.times, *bars.columns.values()):
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()
