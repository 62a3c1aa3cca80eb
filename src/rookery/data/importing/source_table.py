"""A table as it was read, before its columns are understood."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.data.dataset import Bars
from rookery.errors import DataError


@dataclass(frozen=True)
class SourceTable:
    """A table as it was read.

    Attributes:
        place: The file, for messages.
        symbol: The symbol if no column names it.
        frame: A polars frame.
        numbers: Where each row is in the file.
        unit: What `numbers` count: "line" (of a text, from 1) or "row" (of a table, from 0).
    """

    place: str
    symbol: str
    frame: Any
    numbers: np.ndarray
    unit: str = "row"

    def rows(self, which: np.ndarray) -> SourceTable:
        """Some of the rows, in any order."""
        return replace(self, frame=self.frame[which], numbers=self.numbers[which])

    def refusal(self, what: str, row: int | None = None, symbol: str | None = None) -> DataError:
        """An error that names the file, the symbol and the line."""
        name = self.symbol if symbol is None else symbol
        where = f"{printable(self.place)}: {printable(name)}"
        if row is not None:
            where += f" {self.unit} {self.numbers[row]:,}"
        return DataError(f"{where}: {what}")


@dataclass(frozen=True)
class Imported:
    """The bars of one symbol with the table that they come from.

    Attributes:
        bars: Times are as in the table: starts or ends.
        table: Its rows are those of the bars.
        is_local: Whether its days are those of the time zone that was given.
        one_price: Whether it has one price per row.
    """

    bars: Bars
    table: SourceTable
    is_local: bool = False
    one_price: bool = False
