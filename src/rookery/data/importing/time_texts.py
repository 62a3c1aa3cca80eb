"""Times written as text: ISO 8601, and dates with the day or the month first."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.console import printable
from rookery.data.importing.import_options import ImportOptions
from rookery.data.importing.source_table import SourceTable
from rookery.extras import load_polars

CLOCK = r"(?:[T ,]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?)?"
ZONE = r"\s*((?:UTC|GMT|Z)?(?:[+-]\d{2}:?(?:\d{2})?)?)"
YEAR_FIRST = rf"(?i)^\s*(\d{{4}})[-./](\d{{1,2}})[-./](\d{{1,2}}){CLOCK}{ZONE}\s*$"
YEAR_LAST = rf"(?i)^\s*(\d{{1,2}})[-./](\d{{1,2}})[-./](\d{{4}}){CLOCK}{ZONE}\s*$"
FORMAT_REMEDY = "write it as 2024-01-31 23:55:00, or give --date-format, such as --date-format '%d.%m.%Y %H:%M'"
ORDER_REMEDY = (
    "could have the day or the month first: give --day-first or --month-first (in Python: day_first=True or False)"
)


def local_seconds_of_texts(
    table: SourceTable, series: Any, options: ImportOptions
) -> tuple[np.ndarray, np.ndarray | None]:
    """Seconds since 1970 on the clock that the texts are of, and its distance to UTC in seconds; None if no zone is
    named."""
    if options.date_format:
        return _by_format(table, series, options.date_format)
    groups = series.str.extract_groups(YEAR_FIRST).struct.unnest()
    year, month, day = 0, 1, 2
    if groups[:, 0].null_count() == len(series):
        groups = series.str.extract_groups(YEAR_LAST).struct.unnest()
        year, (day, month) = 2, _order(table, series, groups, options)
    unread = np.flatnonzero(groups[:, 0].is_null().to_numpy())
    if len(unread):
        row = int(unread[0])
        raise table.refusal(f"{printable(series[row])!r} is no time that can be read: {FORMAT_REMEDY}", row)
    numbers = [_integers(groups[:, column]) for column in (year, month, day, 3, 4, 5)]
    more = (_integers(groups[:, 6].str.head(18)) > 0).astype(np.int64)  # 23:59:59.999 is rounded up
    return _seconds(table, series, *numbers) + more, _offsets(table, groups[:, 7])


def _by_format(table: SourceTable, series: Any, form: str) -> tuple[np.ndarray, np.ndarray | None]:
    polars = load_polars()
    has_zone = "%z" in form or "%Z" in form
    try:
        made = series.str.strptime(polars.Datetime("ms", "UTC" if has_zone else None), form, strict=False)
        if made.null_count() == len(series) and not has_zone:
            made = series.str.strptime(polars.Date, form, strict=False).cast(polars.Datetime("ms"))
    except Exception as error:  # noqa: BLE001 - polars raises errors of many kinds
        raise table.refusal(
            f"the date format {form!r} cannot be used: {printable(str(error).splitlines()[0])}"
        ) from None
    if made.null_count():
        row = int(np.flatnonzero(made.is_null().to_numpy())[0])
        raise table.refusal(f"{printable(series[row])!r} is not of the date format {form!r}", row)
    seconds = made.dt.epoch("s").to_numpy()
    return seconds, np.zeros(len(seconds), np.int64) if has_zone else None


def _order(table: SourceTable, series: Any, groups: Any, options: ImportOptions) -> tuple[int, int]:
    """The columns of the day and of the month."""
    if options.day_first is not None:
        return (0, 1) if options.day_first else (1, 0)
    first, second = (_integers(groups[:, column]) for column in (0, 1))
    is_day_first, is_month_first = bool((first > 12).any()), bool((second > 12).any())
    if is_day_first and is_month_first:
        row = int(np.flatnonzero(second > 12)[0])
        raise table.refusal("some dates have the day first and some the month: write them in one order", row)
    readable = np.flatnonzero(groups[:, 0].is_not_null().to_numpy())
    if not is_day_first and not is_month_first and len(readable):
        row = int(readable[0])
        raise table.refusal(f"{printable(series[row])!r} {ORDER_REMEDY}", row)
    if len(readable):
        options.note(f"dates have the {'day' if is_day_first else 'month'} first, as other dates in the file show")
    return (0, 1) if is_day_first else (1, 0)


def _integers(column: Any) -> np.ndarray:
    return column.cast(load_polars().Int64, strict=False).fill_null(0).to_numpy()


def _seconds(
    table: SourceTable, series: Any, year: np.ndarray, month: np.ndarray, day: np.ndarray, *clock: np.ndarray
) -> np.ndarray:
    hour, minute, second = clock
    months = ((year - 1970) * 12 + np.clip(month, 1, 12) - 1).astype("datetime64[M]")
    last = ((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(np.int64)
    wrong = (month < 1) | (month > 12) | (day < 1) | (day > last) | (hour > 23) | (minute > 59) | (second > 59)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise table.refusal(f"{printable(series[row])!r} is no date that exists: {FORMAT_REMEDY}", row)
    days = months.astype("datetime64[D]").astype(np.int64) + day - 1
    return days * 86_400 + hour * 3600 + minute * 60 + second


def _offsets(table: SourceTable, zones: Any) -> np.ndarray | None:
    """Seconds ahead of UTC; None if no text names a zone. All have to name the same one, summer time aside."""
    names = zones.fill_null("").str.to_uppercase()
    named = (names != "").to_numpy()
    if not named.any():
        return None
    if not named.all():
        row = int(np.flatnonzero(named != named[0])[0])
        raise table.refusal("some times name a time zone and some do not: write it everywhere or nowhere", row)
    ahead = {name: _ahead(name) for name in names.unique().to_list()}
    offsets = np.array([ahead[name] for name in names.to_list()], np.int64)
    other = np.flatnonzero(np.abs(offsets - offsets[0]) > 3600)
    if len(other):
        row = int(other[0])
        raise table.refusal(f"the times have mixed time zones, {names[0]} and {names[row]}: convert them to one", row)
    return offsets


def _ahead(zone: str) -> int:
    """
    >>> _ahead("Z"), _ahead("GMT+0100"), _ahead("-05:30")
    (0, 3600, -19800)
    """
    digits = zone.lstrip("UTCGMZ").replace(":", "")
    if not digits:
        return 0
    size = int(digits[1:3]) * 3600 + int(digits[3:5] or 0) * 60
    return -size if digits[0] == "-" else size
