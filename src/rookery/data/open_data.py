"""Opens bars, whatever they are in: files, folders, arrays, tables of pandas or polars."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from rookery.console import say
from rookery.data.checks import refuse_bad
from rookery.data.dataset import Dataset
from rookery.data.importing.arrays import bars_of_arrays, is_arrays
from rookery.data.importing.column_names import find_columns
from rookery.data.importing.finish import finished
from rookery.data.importing.import_options import ImportOptions
from rookery.data.importing.memory_tables import is_frame, table_of
from rookery.data.importing.source_files import read_sources
from rookery.data.importing.table_bars import bars_of_table
from rookery.data.resample import resample
from rookery.errors import DataError


def open_data(
    data: Any,
    symbols: Sequence[str] | None = None,
    timeframe: str | int | None = None,
    calendar: str | None = None,
    timezone: str | None = None,
    checked: bool = True,
    **more: Any,
) -> Dataset:
    """Bars from wherever they are, checked.

    >>> rows = {"time": [1_700_000_000, 1_700_000_060], "close": [1.5, 1.6]}
    >>> data = open_data({"BTC": rows})
    >>> data.symbols, data.timeframe, data.one_price
    (('BTC',), 60, True)

    Args:
        data: The path of a file or folder (rookery's Parquet files; CSV, Parquet or arrays of others), a `Dataset`, a
            dict with price_array, time_array and optionally tech_array, a dict of tables by symbol, or one table
            (pandas or polars).
        symbols: Only these, in this order; for arrays, the names of their columns.
        timeframe: Finer bars are resampled to this one.
        calendar: When the market is open, such as "forex", instead of what the file says, or "24/7".
        timezone: Of times that name no zone. Without it, they are refused.
        checked: Whether bad bars are refused; rookery's own files are checked here, others always.
        more: Other options of `ImportOptions`, such as `time_is="end"`.
    """
    options = ImportOptions(symbols, timeframe, calendar, timezone, **more)
    found = _opened(data, options)
    if calendar is not None and found.calendar != calendar:
        found = replace(found, calendar=calendar)
    if timeframe is not None:
        found = resample(found, timeframe)
    if checked:
        refuse_bad(found)
    if "notes" not in more:
        for note in options.notes:
            _say_once(note)
    return found


@cache
def _say_once(note: str) -> None:
    """Each env and each trial may open the same data."""
    say(note)


def _opened(data: Any, options: ImportOptions) -> Dataset:
    if isinstance(data, Dataset):
        return data if options.symbols is None else data.select(options.symbols)
    if isinstance(data, (str, os.PathLike)):
        return read_sources([Path(data).expanduser()], options)
    if isinstance(data, Mapping) and not data:
        raise DataError("data: the dict is empty: give tables by symbol, or price_array and time_array")
    if isinstance(data, Mapping) and is_arrays(data):
        return finished(bars_of_arrays(data, "the arrays", options), options, "arrays")
    if isinstance(data, Mapping) and not _is_table(data):
        tables = [table_of(frame, str(symbol), "the tables") for symbol, frame in data.items()]
        found = finished([bars for table in tables for bars in bars_of_table(table, options)], options, "tables")
        return found if options.symbols is None else found.select(options.symbols)
    if is_frame(data) or isinstance(data, Mapping):
        name = options.symbols[0] if options.symbols and len(options.symbols) == 1 else "ASSET1"
        found = finished(bars_of_table(table_of(data, name, "the table"), options), options, "table")
        return found if options.symbols is None else found.select(options.symbols)
    if isinstance(data, Sequence) and data and all(isinstance(path, (str, os.PathLike)) for path in data):
        return read_sources([Path(path).expanduser() for path in data], options)
    raise DataError(
        f"data should be the path of a file or folder, a dict of tables or arrays, or a table, not "
        f"{type(data).__name__}"
    )


def _is_table(data: Mapping[Any, Any]) -> bool:
    """Whether a dict holds columns: times and prices."""
    found = find_columns(map(str, data))
    return "time" in found and "close" in found
