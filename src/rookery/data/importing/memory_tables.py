"""Tables in memory: frames of polars and pandas, and dicts of columns. pandas is used, but never imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.data.importing.source_table import SourceTable
from rookery.errors import DataError
from rookery.extras import load_polars

NUMBERS, TIMES = "fiub", "M"


def is_frame(data: Any) -> bool:
    """Whether it is a table of polars or pandas, or one that speaks Arrow."""
    return hasattr(data, "columns") or hasattr(data, "__arrow_c_stream__")


def table_of(data: Any, symbol: str, place: str) -> SourceTable:
    """A frame, or a dict of columns."""
    polars = load_polars()
    try:
        frame = data if isinstance(data, polars.DataFrame) else _converted(polars, data, place)
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the other library raises
        raise DataError(f"{place}: {symbol}: the table cannot be read: {str(error).splitlines()[0]}") from None
    return SourceTable(place, symbol, frame, np.arange(len(frame)))


def _converted(polars: Any, data: Any, place: str) -> Any:
    if isinstance(data, polars.LazyFrame):
        return data.collect()
    if isinstance(data, Mapping):
        return polars.DataFrame(
            {str(name): _series(polars, np.asarray(values), place, name) for name, values in data.items()}
        )
    if hasattr(data, "index") and hasattr(data, "columns"):
        return _of_pandas(polars, data, place)
    return polars.DataFrame(data)


def _of_pandas(polars: Any, frame: Any, place: str) -> Any:
    if getattr(frame.columns, "nlevels", 1) > 1:
        raise DataError(
            f"{place}: the table's columns have two levels: pass one table per symbol, as "
            "{symbol: table.xs(symbol, axis=1, level=1)}"
        )
    if getattr(frame.index, "nlevels", 1) > 1:
        frame = frame.reset_index()
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise DataError(f"{place}: two columns of the table have one name: rename one")
    made = {
        name: _pandas_column(polars, frame[column], place, name)
        for name, column in zip(names, frame.columns, strict=True)
    }
    if hasattr(frame.index, "tz"):  # an index of times
        made = {
            "time": _pandas_column(polars, frame.index, place, "the index"),
            **{k: v for k, v in made.items() if k != "time"},
        }
    elif frame.index.name and str(frame.index.name) not in made:
        made = {str(frame.index.name): _pandas_column(polars, frame.index, place, "the index"), **made}
    return polars.DataFrame(made)


def _pandas_column(polars: Any, column: Any, place: str, name: str) -> Any:
    zone = getattr(column.dtype, "tz", None)
    if zone is None:
        return _series(polars, np.asarray(column), place, name)
    index = column if hasattr(column, "tz_convert") and hasattr(column, "tz") else column.dt
    values = np.asarray(
        index.tz_convert("UTC").tz_localize(None) if index is column else index.tz_convert("UTC").dt.tz_localize(None)
    )
    return polars.Series(values.astype("datetime64[us]")).dt.replace_time_zone("UTC")


def _series(polars: Any, values: np.ndarray, place: str, name: Any) -> Any:
    if values.ndim != 1:
        raise DataError(f"{place}: the column {name!r} has the shape {values.shape}, but should be one-dimensional")
    if values.dtype.kind == TIMES:
        return polars.Series(values.astype("datetime64[us]"))
    if values.dtype.kind in NUMBERS:
        return polars.Series(np.ascontiguousarray(values))
    return polars.Series(
        [None if value is None or value != value else str(value) for value in values.tolist()], dtype=polars.String
    )
