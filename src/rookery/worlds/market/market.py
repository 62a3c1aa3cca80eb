"""Bars as the tables of a world: prices for fills, and scaled columns for observations, in memory that all processes
share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rookery.data.anytrading import NAME as ANYTRADING
from rookery.data.anytrading import anytrading_bars, anytrading_file
from rookery.data.dataset import Bars, Dataset
from rookery.data.features import add_features
from rookery.data.gaps import segments
from rookery.data.open_data import open_data
from rookery.data.shared_tables import shared
from rookery.data.storage import fingerprint
from rookery.data.synth import shipped
from rookery.errors import DataError

COST_COLUMNS = ("spread", "funding")
FORMAT = 3  # of the tables; part of their name in the cache


@dataclass(frozen=True)
class Market:
    """The tables of a market. A row is a bar; all rows of a symbol follow each other.

    Attributes:
        symbols: The symbols; of a portfolio, one block of rows holds all of them.
        columns: The observed columns, by name.
        timeframe: Seconds per bar.
        synthetic: Whether the bars are made up.
        times: (rows,) when each bar is complete.
        blocks: (blocks, 2) first and last row of each symbol, or of the portfolio.
        stretches: (n, 2) first and last row of stretches without a gap or a missing number.
        bars: Prices and rates for fills, float64.
        features: Scaled columns, float32, (rows, width).
    """

    symbols: tuple[str, ...]
    columns: tuple[str, ...]
    timeframe: int
    calendar: str
    synthetic: bool
    place: str
    times: np.ndarray
    blocks: np.ndarray
    stretches: np.ndarray
    bars: np.ndarray
    features: np.ndarray


# A dataset and its observed columns as times, blocks, stretches, bars and features.
Layout = Callable[[Dataset, Sequence[str]], dict[str, np.ndarray]]


class ObservedColumns(NamedTuple):
    """Which columns an agent observes: those that are named; else `always`, and the features that the data have, or
    `usual` ones if they have none."""

    named: tuple[str, ...] | None
    always: tuple[str, ...]
    usual: tuple[str, ...]

    def choose(self, dataset: Dataset) -> tuple[str, ...]:
        if self.named is not None:
            return self.named
        features = tuple(name for name in dataset.features if name not in COST_COLUMNS)
        return (*self.always, *(features or self.usual))


def load_market(
    kind: str, data: Any, symbols: Sequence[str] | None, timeframe: str | int | None, columns: ObservedColumns,
    layout: Layout, layout_name: str,
) -> Market:  # fmt: skip
    """The tables for what a user passes as `data`. They are computed once, and mapped into every process that needs
    them."""

    def build() -> dict[str, np.ndarray]:
        dataset = _dataset(kind, data, symbols, timeframe)
        chosen = columns.choose(dataset)
        arrays = layout(_with_columns(dataset, chosen), chosen)
        facts = {
            "columns": chosen,
            "symbols": dataset.symbols, "timeframe": dataset.timeframe, "calendar": dataset.calendar,
            "synthetic": any(step.get("command", "").startswith("synth") for step in dataset.history),
            "place": dataset.place or kind,
        }  # fmt: skip
        return {**arrays, "facts": np.frombuffer(json.dumps(facts).encode(), np.uint8)}

    given = ["market", FORMAT, kind, symbols, timeframe, columns, layout_name, _identity(kind, data)]
    key = hashlib.sha256(json.dumps(given, default=str).encode()).hexdigest()[:32]
    arrays = shared(key, build)
    facts = json.loads(bytes(arrays["facts"]))
    return Market(
        tuple(facts["symbols"]), tuple(facts["columns"]), facts["timeframe"], facts["calendar"], facts["synthetic"],
        facts["place"], *(arrays[name] for name in ("times", "blocks", "stretches", "bars", "features")),
    )  # fmt: skip


def _identity(kind: str, data: Any) -> str:
    if data is None:
        return f"shipped {kind}"
    if isinstance(data, str) and data == ANYTRADING:
        return fingerprint(anytrading_file())
    if isinstance(data, (str, Path)):
        return fingerprint(Path(data).expanduser())
    return data.hash if isinstance(data, Dataset) else open_data(data).hash


def _dataset(kind: str, data: Any, symbols: Sequence[str] | None, timeframe: str | int | None) -> Dataset:
    if data is None:
        return shipped(kind).select(symbols)
    if isinstance(data, str) and data == ANYTRADING:
        return open_data(anytrading_bars(), symbols=symbols, timeframe=timeframe)
    usual = "forex" if kind == "forex" else "24/7"
    return open_data(data, symbols=symbols, timeframe=timeframe, usual_calendar=usual)


def _with_columns(dataset: Dataset, columns: Sequence[str]) -> Dataset:
    """With the columns that are not there yet, computed."""
    missing = [name for name in columns if name not in dataset.column_names]
    return add_features(dataset, missing) if missing else dataset


def need_column(bars: Bars, column: str) -> np.ndarray:
    """A column that the costs name. Its absence is an error: what is not known is not zero."""
    if column not in bars.columns:
        raise DataError(f"{bars.symbol}: the costs take {column!r} from the data, which have no such column")
    return bars[column]


def find_stretches(times: np.ndarray, usable: np.ndarray, dataset: Dataset, first_row: int) -> np.ndarray:
    """(n, 2) first and last row of stretches that an episode may run in: no unscheduled gap, every number finite."""
    found = []
    for first, last in segments(times, dataset.timeframe, dataset.calendar):
        good = np.concatenate([[False], usable[first : last + 1], [False]])
        edges = np.flatnonzero(good[1:] != good[:-1]).reshape(-1, 2)
        found.append(edges + first + np.array([0, -1]))
    return (np.concatenate(found) if found else np.zeros((0, 2), np.int64)) + first_row
