"""From bars as a source has them to a dataset: the timeframe, the times at which bars are complete, and the checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rookery.console import printable
from rookery.data.checks import problems
from rookery.data.dataset import Bars, Dataset
from rookery.data.gaps import DAY, gap_rows
from rookery.data.importing.import_options import ImportOptions
from rookery.data.importing.source_table import Imported
from rookery.data.importing.times import to_utc
from rookery.data.problem import ERROR
from rookery.data.timeframes import timeframe_name, timeframe_seconds
from rookery.errors import DataError

MANY_GAPS = 3  # weekends, after which a calendar is proposed


def finished(found: Sequence[Imported], options: ImportOptions, source: str) -> Dataset:
    """The dataset of one file or object. Its timeframe is that of the source."""
    _refuse_twice(found)
    length = _timeframe(found, options)
    bars = tuple(_complete(each, length, options) for each in found)
    one_price = all(each.one_price for each in found)
    entry = {"command": "import", "source": source, **options.facts()}
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
    raise table.refusal(f"{first.what}{more}", first.row, first.symbol)


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
