"""Makes bars of a table: finds the columns, reads times and numbers, and parts the symbols."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.data.dataset import BAR_COLUMNS, PRICES, Bars
from rookery.data.importing.column_names import check_columns, find_columns, plain_name
from rookery.data.importing.import_options import ImportOptions
from rookery.data.importing.source_table import Imported, SourceTable
from rookery.data.importing.times import seconds
from rookery.extras import load_polars

DECIMAL_COMMA = re.compile(r"-?\d+,\d+")


def bars_of_table(table: SourceTable, options: ImportOptions) -> list[Imported]:
    """The bars of each symbol in a table. Times are as in the table, oldest first."""
    where = f"{printable(table.place)}: {printable(table.symbol)}"
    columns = find_columns(table.frame.columns)
    check_columns(where, table.frame.columns, columns)
    if len(table.frame) == 0:
        raise table.refusal("there are no bars")
    return [_bars_of_symbol(part, columns, options) for part in _parted(table, columns.get("symbol"))]


def _parted(table: SourceTable, column: str | None) -> Iterator[SourceTable]:
    if column is None:
        yield table
        return
    names = table.frame[column].cast(load_polars().String)
    if names.null_count():
        raise table.refusal(f"{column} is missing", int(np.flatnonzero(names.is_null().to_numpy())[0]))
    for name in names.unique(maintain_order=True).to_list():
        part = table.rows(np.flatnonzero((names == name).to_numpy()))
        yield SourceTable(part.place, name.strip() or table.symbol, part.frame, part.numbers, part.unit)


def _bars_of_symbol(table: SourceTable, columns: dict[str, str], options: ImportOptions) -> Imported:
    times, is_local = seconds(table, columns["time"], columns.get("clock"), options)
    if len(times) > 1 and (np.diff(times) < 0).all():
        options.note(f"{printable(table.symbol)}: the newest bar came first; the order was reversed")
        order = np.arange(len(times))[::-1]
        table, times = table.rows(order), times[order]
    close = _numbers(table, columns["close"], options)
    values = {name: _numbers(table, columns[name], options) if name in columns else close for name in PRICES}
    if "volume" in columns:
        values["volume"] = _numbers(table, columns["volume"], options)
    else:
        options.note(f"{printable(table.symbol)}: there is no column of volume; it is 0 everywhere")
        values["volume"] = np.zeros(len(times))
    values = _adjusted(table, values, columns, options)
    return Imported(
        Bars(table.symbol, times, values | _others(table, columns, options)), table, is_local, "open" not in columns
    )


def _adjusted(
    table: SourceTable, values: dict[str, np.ndarray], columns: dict[str, str], options: ImportOptions
) -> dict[str, np.ndarray]:
    if "adjusted" not in columns:
        if options.adjusted:
            raise table.refusal("there is no column of adjusted closes, such as Adj Close, which --adjusted needs")
        return values
    if not options.adjusted:
        options.note(f"{columns['adjusted']!r} is omitted, because it depends on later dividends; --adjusted uses it")
        return values
    factor = _numbers(table, columns["adjusted"], options) / values["close"]
    return values | {name: values[name] * factor for name in PRICES}


def _others(table: SourceTable, columns: dict[str, str], options: ImportOptions) -> dict[str, np.ndarray]:
    """Further columns of numbers, as features. Those with holes or texts are omitted, with a note."""
    found = {}
    for name in table.frame.columns:
        plain = plain_name(name)
        if name in columns.values() or not plain or plain in BAR_COLUMNS or plain in found:
            continue
        values = _cast(table.frame[name], options)
        known = np.flatnonzero(~np.isnan(values))
        if len(known) and np.isfinite(values[known[0] :]).all():
            found[plain] = values
        else:
            options.note(f"{printable(table.symbol)}: the column {name!r} is omitted, because it lacks numbers")
    return found


def _cast(series: Any, options: ImportOptions) -> np.ndarray:
    """Numbers; NaN for what is none."""
    polars = load_polars()
    if series.dtype == polars.String:
        series = series.str.strip_chars()
        series = series.str.replace(",", ".", literal=True) if options.decimal_comma else series
    elif not series.dtype.is_numeric():
        return np.full(len(series), np.nan)
    return series.cast(polars.Float64, strict=False).fill_null(float("nan")).to_numpy()


def _numbers(table: SourceTable, column: str, options: ImportOptions) -> np.ndarray:
    """The numbers of a column of prices or volumes; anything else is refused."""
    series, values = table.frame[column], _cast(table.frame[column], options)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad) == 0:
        return values
    row = int(bad[0])
    more = f" (and {len(bad) - 1:,} more rows)" if len(bad) > 1 else ""
    value = series[row]
    if value is None:
        raise table.refusal(f"{column.strip()} is missing: remove the bar, or get it again{more}", row)
    if isinstance(value, str) and DECIMAL_COMMA.fullmatch(value.strip()):
        raise table.refusal(
            f"{column.strip()} is {value!r}: give --decimal-comma if that is {value.replace(',', '.')}", row
        )
    shown = printable(repr(value) if isinstance(value, str) else value)
    raise table.refusal(f"{column.strip()} is {shown}, which is no finite number: remove or correct the bar{more}", row)
