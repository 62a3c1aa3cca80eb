"""Times in files, as seconds in UTC. A time without a zone is refused until one is given."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.data.importing.column_names import plain_name
from rookery.data.importing.import_options import ImportOptions
from rookery.data.importing.source_table import SourceTable
from rookery.data.importing.time_texts import local_seconds_of_texts
from rookery.extras import load_polars

# Numbers since 1970 by their size: from 1973 to 5138 the units do not overlap.
UNITS = ((1e8, 1e11, 1.0), (1e11, 1e14, 1e3), (1e14, 1e17, 1e6), (1e17, 1e20, 1e9))
COMPACT = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}  # 20240131 and 20240131235900
SAYS_UTC = re.compile(r"(?:^|_)(?:utc|gmt)(?:_|$)")  # as in "Gmt time" and "timestamp_utc"
NEEDS_ZONE = (
    "the times name no time zone: give it by `rookery data import --timezone`, such as UTC or America/New_York "
    "(in Python: timezone='UTC')"
)


def seconds(table: SourceTable, column: str, clock: str | None, options: ImportOptions) -> tuple[np.ndarray, bool]:
    """The times of a table in seconds since 1970 in UTC, and whether days are those of `options.timezone`."""
    polars, series = load_polars(), table.frame[column]
    if options.timezone is None and SAYS_UTC.search(plain_name(column)):
        options.note(f"times are UTC, as the name of the column {column!r} says")
        options = replace(options, timezone="UTC")
    if clock is not None:
        series = series.cast(polars.String) + " " + table.frame[clock].cast(polars.String)
    if series.null_count():
        raise table.refusal(f"{column} is missing", int(np.flatnonzero(series.is_null().to_numpy())[0]))
    if series.dtype == polars.String:
        number = series.str.strip_chars().cast(polars.Float64, strict=False)
        if 0 < 2 * number.null_count() < len(series):
            row = int(np.flatnonzero(number.is_null().to_numpy())[0])
            raise table.refusal(f"{printable(series[row])!r} is no time, while most times are numbers", row)
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
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise table.refusal("the time is no finite number", int(bad[0]))
    compact = _compact_dates(values)
    if compact is not None:
        return _in_zone(table, compact, options)
    for least, most, per_second in UNITS:
        fits = (values >= least) & (values < most)
        if fits[0]:
            if not fits.all():
                row = int(np.flatnonzero(~fits)[0])
                raise table.refusal(
                    f"the time {values[row]:.0f} has another unit than the times before: use one unit", row
                )
            return np.ceil(values / per_second).astype(np.int64), False
    raise table.refusal(f"{values[0]:.15g} is no time: give dates, or seconds or milliseconds since 1970", 0)


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
    local, offset = local_seconds_of_texts(table, series, options)
    return (local - offset, False) if offset is not None else _in_zone(table, local, options)


def _in_zone(table: SourceTable, local: np.ndarray, options: ImportOptions) -> tuple[np.ndarray, bool]:
    """Seconds in UTC of times on the clock of `options.timezone`."""
    if options.timezone is None:
        raise table.refusal(NEEDS_ZONE)
    if options.timezone.upper() in ("UTC", "ETC/UTC", "GMT"):
        return local, False
    early, late = (to_utc(local, options.timezone, which) for which in ("earliest", "latest"))
    lost = np.flatnonzero(early == NEVER)
    if len(lost):
        text = str(np.datetime64(int(local[lost[0]]), "s")).replace("T", " ")
        raise table.refusal(
            f"{text} does not exist in {options.timezone}, where clocks were put forward: is the zone right?",
            int(lost[0]),
        )
    return _in_order(early, late), True


NEVER = np.iinfo(np.int64).min


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
