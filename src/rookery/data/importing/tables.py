"""Tables of others: text files (CSV with any common delimiter), frames of polars and pandas, and dicts of columns.
pandas is used, but never imported."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from rookery.console import printable
from rookery.data.bar_files import UnreadableTable, contents, guarded
from rookery.data.importing.sources import ImportOptions, SourceTable, find_columns
from rookery.data.importing.vendors import VendorLayout, recognise, with_rules
from rookery.errors import DataError
from rookery.extras import load_polars

DELIMITERS = (",", ";", "\t", "|")
PREAMBLE = 10  # lines that may precede the header
EXAMPLE = "time,open,high,low,close,volume"
NUMBERS, TIMES = "fiub", "M"


def read_text(path: Path, symbol: str, options: ImportOptions) -> tuple[SourceTable, ImportOptions]:
    """The table of a text file, of which all values are texts, and the options with those that its layout implies."""
    text, symbol = _one_header(decoded(path), symbol)
    lines = text.split("\n", PREAMBLE + 1)
    header, delimiter, names, layout = _columns(path, lines, options)
    table = text_table(path, symbol, text, header, delimiter, names)
    if len(table.frame) == 0:
        raise DataError(f"{printable(path)}: {printable(symbol)}: there is a header, but no bar below it")
    if layout is not None:
        frame, options = with_rules(str(path), layout, table.frame, options)
        table = replace(table, frame=frame)
    refuse_second_header(table, find_columns(table.frame.columns)["close"])
    return table, options


def text_table(path: Path, symbol: str, text: str, header: int, delimiter: str, names: list[str]) -> SourceTable:
    """The rows below the line `header`, without blank ones."""
    lines = text.split("\n") if "\n\n" in text else []
    kept = [number for number, line in enumerate(lines) if number > header and line.strip()]
    if lines:  # polars takes a blank first line for a column
        text = "\n".join([*lines[: header + 1], *(lines[number] for number in kept)])
    frame = _parsed(path, text, header, delimiter, names)
    numbers = np.array(kept[: len(frame)]) + 1 if lines else np.arange(len(frame)) + header + 2
    blank = frame.select(load_polars().all_horizontal(load_polars().all().is_null())).to_series().to_numpy()
    return SourceTable(str(path), symbol, frame.filter(~blank), numbers[~blank], "line")


def header_of(lines: list[str], is_header: Callable[[list[str]], bool]) -> tuple[int, str, list[str]] | None:
    """The number of lines before the header, the delimiter, and the names of the columns."""
    for number, line in enumerate(lines[:PREAMBLE]):
        for delimiter in DELIMITERS:
            fields = _fields(line, delimiter)
            if len(fields) > 1 and is_header(fields):
                return number, delimiter, fields
    return None


def _columns(path: Path, lines: list[str], options: ImportOptions) -> tuple[int, str, list[str], VendorLayout | None]:
    """The line of the header, -1 if there is none; the delimiter; the names of the columns; whose layout it is."""
    first = next((line for line in lines if line.strip()), "")
    for delimiter in DELIMITERS:
        fields = _fields(first, delimiter)
        layout = recognise(str(path), fields, options) if options.format is None else None
        if layout is not None and layout.has_values(fields):
            return -1, delimiter, list(layout.names), layout
    if options.format is not None and not find_columns(_fields(first, delimiter := _most(first))).get("close"):
        layout = recognise(str(path), _fields(first, delimiter), options)
        if layout is not None and layout.names:
            return -1, delimiter, list(layout.names), layout
    number, delimiter = _header(path, lines)
    names = _fields(lines[number], delimiter)
    return number, delimiter, names, recognise(str(path), names, options)


def _most(line: str) -> str:
    return max(DELIMITERS, key=line.count)


def decoded(path: Path) -> str:
    """The text of a file, which may be compressed."""
    content = contents(path)
    encoding = "utf-8-sig"
    if content.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        encoding = "utf-32"
    elif content.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif content[1:64:2] == b"\x00" * len(content[1:64:2]):  # without a mark
        encoding = "utf-16-le"
    elif b"\x00" in content[:4096]:
        raise DataError(f"{printable(path)}: the file is not a text file: its first bytes are {content[:8]!r}")
    try:
        return content.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(f"{printable(path)}: line {line:,} is not valid UTF-8: save the file as UTF-8") from None


def _one_header(text: str, symbol: str) -> tuple[str, str]:
    """Tables of yfinance begin with a line of columns, one of tickers and one that names the index; if there is one
    ticker, they become one line."""
    lines = text.split("\n", 3)
    if len(lines) < 4 or not (lines[0].startswith("Price,") and lines[1].startswith("Ticker,")):
        return text, symbol
    tickers = set(lines[1].split(",")[1:])
    index = lines[2].split(",")[0]
    if len(tickers) != 1 or find_columns([index]).get("time") is None:
        return text, symbol
    header = ",".join([index, *lines[0].split(",")[1:]])
    return f"\n\n{header}\n{lines[3]}", tickers.pop().strip() or symbol


def _header(path: Path, lines: list[str]) -> tuple[int, str]:
    """The number of lines before the header, and the delimiter."""
    found = header_of(lines, lambda fields: "close" in find_columns(fields))
    if found is not None:
        return found[:2]
    number, first = next(((i, line) for i, line in enumerate(lines, 1) if line.strip()), (1, ""))
    delimiter = _most(first)
    fields = _fields(first, delimiter)
    name = printable(path)
    if first.count(delimiter) == 0:
        raise DataError(
            f"{name}: line {number} has no comma, semicolon or tab between columns: {printable(first)[:60]!r}; write "
            f"{EXAMPLE}"
        )
    if sum(map(_is_number, fields)) >= 2:
        raise DataError(
            f"{name}: line {number} holds values, but should name the columns: add a line such as {EXAMPLE}"
        )
    shown = printable(", ".join(fields[:12]))
    raise DataError(f"{name}: no column of prices: name it close; the columns are {shown}")


def _fields(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _parsed(path: Path, text: str, header: int, delimiter: str, names: list[str]) -> Any:
    """All columns as texts. Names of columns may occur twice here."""
    polars = load_polars()
    start = 0
    for _ in range(header + 1):
        start = text.find("\n", start) + 1 or len(text)
    if start >= len(text):
        return polars.DataFrame(schema=dict.fromkeys(_unique(names), polars.String))
    try:
        return guarded(
            lambda: polars.read_csv(
                io.BytesIO(text[start:].encode()), separator=delimiter, has_header=False, infer_schema=False,
                schema=dict.fromkeys(_unique(names), polars.String),
            )
        )  # fmt: skip
    except UnreadableTable as error:
        _refuse_ragged(path, text, header, delimiter, len(names), error)


def _unique(names: list[str]) -> list[str]:
    """Names of columns for polars, which refuses two of one name: a second one gets a space, which is omitted of
    account where names are compared."""
    made: list[str] = []
    for name in names:
        while name in made:
            name += " "
        made.append(name)
    return made


def _refuse_ragged(path: Path, text: str, header: int, delimiter: str, count: int, error: Exception) -> NoReturn:
    """Name the first line that has too many fields."""
    name = printable(path)
    try:
        for row in (reader := csv.reader(io.StringIO(text), delimiter=delimiter)):
            if reader.line_num > header and len(row) > count:
                raise DataError(
                    f"{name}: line {reader.line_num:,} has {len(row)} columns, but the header has {count}: is a comma "
                    "used for decimals, or is the line damaged?"
                )
    except csv.Error as problem:
        error = problem
    raise DataError(f"{name}: cannot be read as CSV: {printable(str(error).splitlines()[0])}") from None


def refuse_second_header(table: SourceTable, column: str) -> None:
    """Files that were joined hold the header again."""
    again = (table.frame[column].str.strip_chars() == column.strip()).fill_null(False)
    table.refuse_where(again, "the header occurs again: remove this line, and sort the bars")


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
