"""Times in files, as seconds in UTC. A time without a zone is rejected until one is given."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.data.importing.sources import ImportOptions, SourceTable, plain_name
from rookery.extras import load_polars

# Numbers since 1970 by their size: from 1973 to 5138 the units do not overlap.
UNITS = ((1e8, 1e11, 1.0), (1e11, 1e14, 1e3), (1e14, 1e17, 1e6), (1e17, 1e20, 1e9))
EXCEL_DAYS, EXCEL_1970 = (18_000.0, 100_000.0), 25_569  # its dates from 1949 to 2173, and that of 1970-01-01
COMPACT = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}  # 20240131 and 20240131235900
SAYS_UTC = re.compile(r"(?:^|_)(?:utc|gmt)(?:_|$)")  # as in "Gmt time" and "timestamp_utc"
OTHER_UNIT = "has another unit than the times before: use one unit"
NEEDS_ZONE = (
    "the times name no time zone: give it by --timezone of `rookery data import` or `rookery backtest`, such as UTC or "
    "America/New_York (in Python: timezone='UTC')"
)
NEVER = np.iinfo(np.int64).min
CLOCK = r"(?:[T ,]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?(?:\s*([ap])\.?m\.?)?)?"
ZONE = r"\s*((?:UTC|GMT|Z)?(?:[+-]\d{2}:?(?:\d{2})?)?)"
YEAR_FIRST = rf"(?i)^\s*(\d{{4}})[-./](\d{{1,2}})[-./](\d{{1,2}}){CLOCK}{ZONE}\s*$"
YEAR_LAST = rf"(?i)^\s*(\d{{1,2}})[-./](\d{{1,2}})[-./](\d{{4}}){CLOCK}{ZONE}\s*$"
FORMAT_REMEDY = "write it as 2024-01-31 23:55:00, or import with --date-format, such as --date-format '%d.%m.%Y %H:%M'"
ORDER_REMEDY = (
    "could have the day or the month first: import with --day-first or --month-first (in Python: day_first=True or "
    "False), or write 2024-01-31"
)


def seconds(table: SourceTable, column: str, clock: str | None, options: ImportOptions) -> tuple[np.ndarray, bool]:
    """The times of a table in seconds since 1970 in UTC, and whether days are those of `options.timezone`."""
    polars, series = load_polars(), table.frame[column]
    if options.timezone is None and SAYS_UTC.search(plain_name(column)):
        options.note(f"times are UTC, as the name of the column {column!r} says")
        options = replace(options, timezone="UTC")
    if clock is not None:
        series = series.cast(polars.String) + " " + table.frame[clock].cast(polars.String)
    table.refuse_where(series.is_null(), f"{column} is missing")
    if series.dtype == polars.String:
        number = series.str.strip_chars().cast(polars.Float64, strict=False)
        if 2 * number.null_count() < len(series):
            table.refuse_where(
                number.is_null(), lambda row: f"{printable(series[row])!r} is not a time, while most times are numbers"
            )
        if number.null_count() or options.date_format:
            return _of_texts(table, series, options)
        series = number
    if series.dtype.is_numeric():
        return _of_numbers(table, series, options)
    if series.dtype == polars.Date:
        return _in_zone(table, _whole_seconds(series.cast(polars.Datetime("ms"))), options)
    if isinstance(series.dtype, polars.Datetime):
        whole = _whole_seconds(series)
        return (whole, False) if series.dtype.time_zone else _in_zone(table, whole, options)
    raise table.refusal(f"the column {column!r} holds no times but {series.dtype}")


def _whole_seconds(series: Any) -> np.ndarray:
    """Rounded up: the end of a bar may be written as 23:59:59.999."""
    return -(-series.dt.epoch("us").to_numpy() // 1_000_000)


def _of_numbers(table: SourceTable, series: Any, options: ImportOptions) -> tuple[np.ndarray, bool]:
    values = series.cast(load_polars().Float64).to_numpy()
    table.refuse_where(~np.isfinite(values), "the time is not a finite number")
    compact = _compact_dates(values)
    if compact is not None:
        return _in_zone(table, compact, options)
    if ((values >= EXCEL_DAYS[0]) & (values < EXCEL_DAYS[1])).all():
        options.note("times are days since 1900, as Excel writes dates")
        return _in_zone(table, np.rint((values - EXCEL_1970) * 86_400).astype(np.int64), options)
    for least, most, per_second in UNITS:
        fits = (values >= least) & (values < most)
        if fits[0]:
            table.refuse_where(~fits, lambda row: f"the time {values[row]:.0f} {OTHER_UNIT}")
            return np.ceil(values / per_second).astype(np.int64), False
    raise table.refusal(f"{values[0]:.15g} is not a time: give dates, or seconds or milliseconds since 1970", 0)


def _compact_dates(values: np.ndarray) -> np.ndarray | None:
    """Seconds of numbers such as 20240131, which are dates if all of them can be."""
    first, polars = f"{values[0]:.0f}", load_polars()
    form = COMPACT.get(len(first))
    if form is None or first[:2] not in ("19", "20"):
        return None
    texts = polars.Series([f"{value:.0f}" for value in values])
    if (texts.str.len_bytes() != len(first)).any():
        return None
    made = texts.str.strptime(polars.Datetime("ms"), form, strict=False)
    return None if made.null_count() else made.dt.epoch("s").to_numpy()


def _of_texts(table: SourceTable, series: Any, options: ImportOptions) -> tuple[np.ndarray, bool]:
    local, offset = _local_seconds(table, series, options)
    return (local - offset, False) if offset is not None else _in_zone(table, local, options)


def _in_zone(table: SourceTable, local: np.ndarray, options: ImportOptions) -> tuple[np.ndarray, bool]:
    """Seconds in UTC of times on the clock of `options.timezone`."""
    if options.timezone is None:
        raise table.refusal(NEEDS_ZONE)
    if options.timezone.upper() in ("UTC", "ETC/UTC", "GMT"):
        return local, False
    early, late = (to_utc(local, options.timezone, which) for which in ("earliest", "latest"))
    lost = f"does not exist in {options.timezone}, where clocks were put forward: is the zone right?"
    table.refuse_where(
        early == NEVER, lambda row: f"{str(np.datetime64(int(local[row]), 's')).replace('T', ' ')} {lost}"
    )
    return _in_order(early, late), True


def to_utc(local: np.ndarray, timezone: str, ambiguous: str = "latest") -> np.ndarray:
    """Seconds in UTC of seconds on a local clock; NEVER for those that the clock skipped."""
    polars = load_polars()
    clock = polars.Series(local * 1000).cast(polars.Datetime("ms"))
    known = clock.dt.replace_time_zone(timezone, ambiguous=ambiguous, non_existent="null")
    return known.dt.epoch("s").fill_null(NEVER).to_numpy()


def _in_order(early: np.ndarray, late: np.ndarray) -> np.ndarray:
    """An hour that a clock shows twice is the first one, until the file begins it again."""
    times = early.copy()
    for row in np.flatnonzero(early != late):
        if row and times[row] <= times[row - 1]:
            times[row] = late[row]
    return times


def _local_seconds(table: SourceTable, series: Any, options: ImportOptions) -> tuple[np.ndarray, np.ndarray | None]:
    """Seconds since 1970 on the clock that the texts are of, and its distance to UTC in seconds; None if no zone is
    named."""
    if options.date_format:
        return _by_format(table, series, options.date_format)
    groups = series.str.extract_groups(YEAR_FIRST).struct.unnest()
    year, month, day = 0, 1, 2
    if groups[:, 0].null_count() == len(series):
        groups = series.str.extract_groups(YEAR_LAST).struct.unnest()
        year, (day, month) = 2, _order(table, series, groups, options)
    unread = f"is not a readable time: {FORMAT_REMEDY}"
    table.refuse_where(groups[:, 0].is_null(), lambda row: f"{printable(series[row])!r} {unread}")
    years, months, days, hours, *rest = (_integers(groups[:, column]) for column in (year, month, day, 3, 4, 5))
    hours = _of_the_day(table, series, hours, groups[:, 7].str.to_lowercase())
    more = (_integers(groups[:, 6].str.head(18)) > 0).astype(np.int64)  # 23:59:59.999 is rounded up
    return _seconds(table, series, years, months, days, hours, *rest) + more, _offsets(table, groups[:, 8])


def _of_the_day(table: SourceTable, series: Any, hours: np.ndarray, half: Any) -> np.ndarray:
    """Hours from 0 to 23, of a clock that may show 12 hours twice."""
    named = half.is_not_null().to_numpy()
    if not named.any():
        return hours
    wrong = named & ((hours < 1) | (hours > 12))
    table.refuse_where(wrong, lambda row: f"{printable(series[row])!r} has no such hour: {FORMAT_REMEDY}")
    return np.where(named, hours % 12 + 12 * (half == "p").fill_null(False).to_numpy(), hours)


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
    table.refuse_where(made.is_null(), lambda row: f"{printable(series[row])!r} is not of the date format {form!r}")
    seconds = made.dt.epoch("s").to_numpy()
    return seconds, np.zeros(len(seconds), np.int64) if has_zone else None


def _order(table: SourceTable, series: Any, groups: Any, options: ImportOptions) -> tuple[int, int]:
    """The columns of the day and of the month."""
    if options.day_first is not None:
        return (0, 1) if options.day_first else (1, 0)
    first, second = (_integers(groups[:, column]) for column in (0, 1))
    is_day_first, is_month_first = bool((first > 12).any()), bool((second > 12).any())
    if is_day_first:
        table.refuse_where(second > 12, "some dates have the day first and some the month: write them in one order")
    readable = groups[:, 0].is_not_null()
    if not is_day_first and not is_month_first:
        table.refuse_where(readable, lambda row: f"{printable(series[row])!r} {ORDER_REMEDY}")
    if readable.any():
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
    absent = f"is not a valid date: {FORMAT_REMEDY}"
    table.refuse_where(wrong, lambda row: f"{printable(series[row])!r} {absent}")
    days = months.astype("datetime64[D]").astype(np.int64) + day - 1
    return days * 86_400 + hour * 3600 + minute * 60 + second


def _offsets(table: SourceTable, zones: Any) -> np.ndarray | None:
    """Seconds ahead of UTC; None if no text names a zone. All have to name the same one, summer time aside."""
    names = zones.fill_null("").str.to_uppercase()
    named = (names != "").to_numpy()
    if not named.any():
        return None
    table.refuse_where(named != named[0], "some times name a time zone and some do not: write it everywhere or nowhere")
    ahead = {name: _ahead(name) for name in names.unique().to_list()}
    offsets = np.array([ahead[name] for name in names.to_list()], np.int64)
    table.refuse_where(
        np.abs(offsets - offsets[0]) > 3600,
        lambda row: f"the times have mixed time zones, {names[0]} and {names[row]}: convert them to one",
    )
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
