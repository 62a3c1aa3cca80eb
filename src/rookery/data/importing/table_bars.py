"""From a table to a dataset: finds the columns, reads times and numbers, parts the symbols, then finds the timeframe
and the times at which bars are complete, and checks them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.data.calendars import DAY, gap_rows, timeframe_name, timeframe_seconds
from rookery.data.checks import ERROR, TWICE, problems
from rookery.data.dataset import BAR_COLUMNS, COST_COLUMNS, PRICES, Bars, Dataset
from rookery.data.importing.sources import Imported, ImportOptions, SourceTable, check_columns, find_columns, plain_name
from rookery.data.importing.spreads import half_spread
from rookery.data.importing.times import seconds, to_utc
from rookery.errors import DataError
from rookery.extras import load_polars

DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
MANY_GAPS = 3  # weekends, after which a calendar is proposed


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
    table.refuse_where(names.is_null(), f"{column} is missing")
    for name in names.unique(maintain_order=True).to_list():
        part = table.rows(np.flatnonzero((names == name).to_numpy()))
        yield SourceTable(part.place, name.strip() or table.symbol, part.frame, part.numbers, part.unit)


def _without_duplicates(table: SourceTable, options: ImportOptions) -> SourceTable:
    """Without rows that are equal to an earlier one in every column."""
    polars = load_polars()
    first = table.frame.select(polars.struct(polars.all()).is_first_distinct()).to_series().to_numpy()
    if first.all():
        return table
    options.note(f"{printable(table.symbol)}: {int((~first).sum()):,} exact duplicates of rows were omitted")
    return table.rows(np.flatnonzero(first))


def _bars_of_symbol(table: SourceTable, columns: dict[str, str], options: ImportOptions) -> Imported:
    if options.drop_duplicates:
        table = _without_duplicates(table, options)
    times, is_local = seconds(table, columns["time"], columns.get("clock"), options)
    if len(times) > 1 and (np.diff(times) < 0).all():
        options.note(f"{printable(table.symbol)}: the newest bar came first; the order was reversed")
        order = np.arange(len(times))[::-1]
        table, times = table.rows(order), times[order]
    close = _numbers(table, columns["close"], options)
    values = {name: _numbers(table, columns[name], options) if name in columns else close for name in PRICES}
    if "volume" in columns and not _is_empty(table.frame[columns["volume"]]):
        values["volume"] = _numbers(table, columns["volume"], options)
    else:
        options.note(f"{printable(table.symbol)}: there is no volume; it is 0 everywhere")
        values["volume"] = np.zeros(len(times))
    others = _others(table, columns, values["close"], options)
    values = _adjusted(table, values, columns, options)
    unnamed = tuple(name for name in others if name not in COST_COLUMNS)
    return Imported(Bars(table.symbol, times, values | others), table, is_local, "open" not in columns, unnamed)


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


def _others(
    table: SourceTable, columns: dict[str, str], close: np.ndarray, options: ImportOptions
) -> dict[str, np.ndarray]:
    """Further columns of numbers. Those with holes or texts are omitted, with a note."""
    found = {}
    for name in table.frame.columns:
        plain = plain_name(name)
        if name in columns.values() or not plain or plain in BAR_COLUMNS or plain in found:
            continue
        values = _cast(table.frame[name], options)
        known = np.flatnonzero(~np.isnan(values))
        if not (len(known) and np.isfinite(values[known[0] :]).all()):
            options.note(f"{printable(table.symbol)}: the column {name!r} is omitted, because it lacks numbers")
        elif plain != "spread":
            found[plain] = values
        elif (spread := half_spread(table, values, columns, close, options)) is not None:
            found[plain] = spread
    return found


def _cast(series: Any, options: ImportOptions) -> np.ndarray:
    """Numbers; NaN for what is none."""
    polars = load_polars()
    if series.dtype == polars.String:
        series = _without_thousands(series.str.strip_chars(" \t$€£"), *(".," if options.decimal_comma else ",."))
        series = series.str.replace(",", ".", literal=True) if options.decimal_comma else series
    elif not series.dtype.is_numeric():
        return np.full(len(series), np.nan)
    return series.cast(polars.Float64, strict=False).fill_null(float("nan")).to_numpy()


def _without_thousands(series: Any, separator: str, point: str) -> Any:
    """Texts without separators of thousands, if one such as 42,283.58 shows that they are that."""
    grouped = rf"^-?\d{{1,3}}(?:{re.escape(separator)}\d{{3}})+"
    if not series.str.contains(rf"{grouped}{re.escape(point)}\d+$").any():
        return series
    return series.str.replace_all(separator, "", literal=True)


def _is_empty(series: Any) -> bool:
    """Whether nothing is in a column, as in the volume of currencies that some sites export."""
    if series.dtype != load_polars().String:
        return bool(series.null_count() == len(series))
    return bool((series.fill_null("").str.strip_chars() == "").all())


def _numbers(table: SourceTable, column: str, options: ImportOptions) -> np.ndarray:
    """The numbers of a column of prices or volumes; anything else is rejected."""
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
    shown = printable(repr(value) if isinstance(value, str) else value)[:60]
    raise table.refusal(
        f"{column.strip()} is {shown}, which is not a finite number: remove or correct the bar{more}", row
    )


def finished(found: Sequence[Imported], options: ImportOptions, source: str) -> Dataset:
    """The dataset of one file or object. Its timeframe is that of the source."""
    _refuse_twice(found)
    length = _timeframe(found, options)
    bars = tuple(_complete(each, length, options) for each in found)
    one_price = all(each.one_price for each in found)
    entry = {"command": "import", "source": source, **options.facts()}
    if unnamed := list(dict.fromkeys(name for each in found for name in each.unnamed)):
        entry["unnamed"] = unnamed
        options.note(f"columns that are kept, and observed only if `columns` names them: {', '.join(unnamed)}")
    place = found[0].table.place
    data = Dataset(bars, length, options.calendar or options.usual_calendar, one_price, (entry,), place)
    _refuse_bad(data, found)
    _note_weekends(data, options)
    if options.time_is == "start":
        options.note(
            f"times are taken as the start of their bar, which is complete {timeframe_name(length)} later "
            "(`rookery data import --time-is end` takes them as its end)"
        )
    return data


def _refuse_twice(found: Sequence[Imported]) -> None:
    for symbol, count in Counter(each.bars.symbol for each in found).items():
        if count > 1:
            raise DataError(f"{printable(found[0].table.place)}: the symbol {symbol!r} occurs twice: remove one")


def _timeframe(found: Sequence[Imported], options: ImportOptions) -> int:
    """The most common distance between two bars, which has to be that of every symbol."""
    lengths = {}
    for each in found:
        steps = np.diff(each.bars.times)
        steps = steps[steps > 0]
        if len(steps):
            values, counts = np.unique(steps, return_counts=True)
            lengths[each.bars.symbol] = int(values[np.argmax(counts)])
    if not lengths:
        if options.timeframe is None:
            raise found[0].table.refusal(
                "one bar does not show its timeframe: give --timeframe, such as --timeframe 5m"
            )
        return timeframe_seconds(options.timeframe)
    symbol, length = next(iter(lengths.items()))
    for other, its in lengths.items():
        if its != length:
            raise DataError(
                f"{printable(found[0].table.place)}: {other} has bars of {timeframe_name(its)}, but {symbol} has "
                f"bars of {timeframe_name(length)}: keep them in different files"
            )
    return length


def _complete(each: Imported, length: int, options: ImportOptions) -> Bars:
    """With the times at which the bars are complete."""
    bars = each.bars
    if options.time_is == "end":
        return bars
    times = bars.times + length
    if each.is_local and options.timezone and length % DAY == 0:
        times = _next_days(bars.times, length, options.timezone)
    return Bars(bars.symbol, times, bars.columns)


def _next_days(times: np.ndarray, length: int, timezone: str) -> np.ndarray:
    """Days on a local clock may have 23 or 25 hours: a day is complete when the next one begins there."""
    from rookery.extras import load_polars

    polars = load_polars()
    utc = polars.Series(times * 1000).cast(polars.Datetime("ms", "UTC"))
    local = utc.dt.convert_time_zone(timezone).dt.replace_time_zone(None).dt.epoch("s").to_numpy()
    return np.maximum(to_utc(local + length, timezone), times + 23 * 3600)  # a midnight that clocks skipped


def _refuse_bad(data: Dataset, found: Sequence[Imported]) -> None:
    errors = [problem for problem in problems(data) if problem.severity == ERROR]
    if not errors:
        return
    first = errors[0]
    table = next((each.table for each in found if each.bars.symbol == first.symbol), found[0].table)
    more = f" (and {first.count - 1:,} more rows)" if first.count > 1 else ""
    more += f"; {len(errors) - 1} more errors" if len(errors) > 1 else ""
    remedy = (
        "; --drop-duplicates omits equal rows, and several symbols need a column symbol"
        if first.what.startswith(TWICE)
        else ""
    )
    raise table.refusal(f"{first.what}{more}{remedy}", first.row, first.symbol)


def _note_weekends(data: Dataset, options: ImportOptions) -> None:
    """Gaps at every weekend mean that the calendar is another one."""
    if data.calendar != "24/7" or options.calendar is not None:
        return
    for bars in data.bars:
        rows = gap_rows(bars.times, data.timeframe)
        long = rows[(bars.times[rows + 1] - bars.times[rows]) > 36 * 3600] if len(rows) else rows
        weekdays = (bars.times[long] // DAY + 3) % 7  # Monday is 0
        if len(long) >= MANY_GAPS and (weekdays >= 4).mean() > 0.8:
            options.note(
                "bars are missing at weekends, which count as gaps: `rookery data import --calendar forex`, or a name "
                "such as XNYS, says when the market is closed"
            )
            return
