"""A table as it was read, before its columns are understood: its options, and the names that columns have."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.data.calendars import timeframe_seconds
from rookery.data.dataset import Bars
from rookery.errors import DataError, OptionError

SYNONYMS = {
    "time": ("time", "timestamp", "datetime", "date_time", "date", "open_time", "opentime", "start_time", "bar_time",
             "time_utc", "timestamp_utc", "datetime_utc", "gmt_time", "time_gmt", "local_time", "unix", "unix_time",
             "unix_timestamp", "epoch", "ts", "t", "index", "index_level_0", "time_start", "start", "begin",
             "time_open", "time_period_start", "time_eet", "etc_utc", "day"),
    "open": ("open", "o", "open_price", "opening_price"),
    "high": ("high", "h", "high_price"),
    "low": ("low", "l", "low_price"),
    "close": ("close", "c", "close_price", "closing_price", "last", "price", "close_last"),
    "volume": ("volume", "vol", "v", "base_volume", "tick_volume", "tickvol", "volume_base"),
    "symbol": ("symbol", "ticker", "tic", "asset", "instrument", "pair", "coin", "name", "code"),
    "adjusted": ("adj_close", "adjclose", "adjusted_close", "close_adj", "adj"),
}  # fmt: skip
CLOSE_TIMES = ("close_time", "closetime", "end_time", "time_end", "time_close", "time_period_end")
CLOCKS = ("time", "hour", "clock")  # a column of hours beside one of dates
ONE_PRICE = ("open", "high", "low")
# Units of a column of spreads: from bid to ask, or from the middle to either.
SPREADS = ("points", "price", "fraction", "half-points", "half-price", "half-fraction")

RECORDED = (
    "format", "timezone", "date_format", "day_first", "decimal_comma", "adjusted", "drop_duplicates", "spread",
    "digits",
)  # fmt: skip


@dataclass(frozen=True)
class SourceTable:
    """A table as it was read.

    Attributes:
        place: The file, for messages.
        symbol: The symbol if no column names it.
        frame: A polars frame.
        numbers: Where each row is in the file.
        unit: What `numbers` count: "line" (of a text, from 1) or "row" (of a table, from 0).
    """

    place: str
    symbol: str
    frame: Any
    numbers: np.ndarray
    unit: str = "row"

    def rows(self, which: np.ndarray) -> SourceTable:
        """Some of the rows, in any order."""
        return replace(self, frame=self.frame[which], numbers=self.numbers[which])

    def refusal(self, what: str, row: int | None = None, symbol: str | None = None) -> DataError:
        """An error that names the file, the symbol and the line."""
        name = self.symbol if symbol is None else symbol
        where = f"{printable(self.place)}: {printable(name)}"
        if row is not None:
            where += f" {self.unit} {self.numbers[row]:,}"
        return DataError(f"{where}: {what}")

    def refuse_where(self, wrong: Any, what: str | Callable[[int], str]) -> None:
        """Raise an error about the first row that is wrong, if there is one."""
        rows = np.flatnonzero(wrong)
        if len(rows):
            row = int(rows[0])
            raise self.refusal(what if isinstance(what, str) else what(row), row)


@dataclass(frozen=True)
class Imported:
    """The bars of one symbol with the table that they come from.

    Attributes:
        bars: Times are as in the table: starts or ends.
        table: Its rows are those of the bars.
        is_local: Whether its days are those of the time zone that was given.
        one_price: Whether it has one price per row.
        unnamed: Columns that came with the bars and that nobody asked for: vendors add many.
    """

    bars: Bars
    table: SourceTable
    is_local: bool = False
    one_price: bool = False
    unnamed: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportOptions:
    """What a user can say about the files that are imported.

    Attributes:
        symbols: Only these, in this order; for arrays, the names of their columns.
        timeframe: Of the result. Bars of a finer one are resampled.
        calendar: When the market is open.
        usual_calendar: The same for sources that do not say it, if `calendar` is not given.
        timezone: Of times that name no zone, such as "UTC" or "Europe/Berlin"; without it they are rejected.
        date_format: Of times in text, as in `strptime`, such as "%d.%m.%Y %H:%M".
        day_first: Whether 01/02/2024 is in February; without it, such dates are rejected unless others in the file
        tell.
        time_is: Whether a time is the "start" or the "end" of its bar.
        decimal_comma: Whether 1,5 is one and a half.
        adjusted: Scale open, high, low and close so that close is the column of adjusted closes.
        format: The layout of the file by the name of its vendor, such as "binance", instead of what is recognised;
            "generic" finds columns by their names alone.
        drop_duplicates: Whether a row that is exactly equal to an earlier one is omitted; without it, it is rejected.
        tech_names: Names of the columns per symbol of `tech_array`.
        spread: The unit of a column `spread`, one of `SPREADS`; without it, only that of MetaTrader is known.
        digits: Of prices behind the point, for spreads in points; without it, as many as the prices have.
        notes: What was found and decided is added to this list.
    """

    symbols: Sequence[str] | None = None
    timeframe: str | int | None = None
    calendar: str | None = None
    timezone: str | None = None
    date_format: str | None = None
    day_first: bool | None = None
    time_is: str = "start"
    decimal_comma: bool = False
    adjusted: bool = False
    format: str | None = None
    drop_duplicates: bool = False
    tech_names: Sequence[str] | None = None
    spread: str | None = None
    digits: int | None = None
    usual_calendar: str = "24/7"
    notes: list[str] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        if self.time_is not in ("start", "end"):
            raise OptionError(f"time_is should be start or end, got {self.time_is!r}")
        if self.spread not in (None, *SPREADS):
            raise OptionError(f"spread should be one of {', '.join(SPREADS)}, got {self.spread!r}")
        if self.digits is not None and not 0 <= self.digits <= 12:
            raise OptionError(f"digits should be from 0 to 12, got {self.digits!r}")
        if self.timezone is not None:
            _check_timezone(self.timezone)
        if self.timeframe is not None:
            timeframe_seconds(self.timeframe)
        if self.symbols is not None and len(set(self.symbols)) < len(self.symbols):
            raise OptionError(f"symbols should be different, got {', '.join(self.symbols)}")

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def facts(self) -> dict[str, Any]:
        """What is kept in the history."""
        given = {name: getattr(self, name) for name in RECORDED if getattr(self, name) not in (None, False)}
        return {"time_is": self.time_is, **given}


def _check_timezone(name: str) -> None:
    """Refuse what is not a name of a time zone."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise OptionError(
            f"there is no time zone {name!r}: give UTC, or a name such as Europe/Berlin or America/New_York"
        ) from None


def plain_name(name: str) -> str:
    """A column's name in lower case, without what surrounds it.

    >>> plain_name("<TICKVOL>"), plain_name(" Adj Close"), plain_name("__index_level_0__"), plain_name("Volume (BTC)")
    ('tickvol', 'adj_close', 'index_level_0', 'volume_btc')
    """
    return re.sub(r"[^a-z0-9%]+", "_", name.lower()).strip("_")


def find_columns(names: Iterable[str]) -> dict[str, str]:
    """Which column is "time", "open", ..., and "clock" if the time of day has a column of its own.

    >>> find_columns(["Date", "Time", "O", "H", "L", "C", "Vol"])["clock"]
    'Time'
    """
    plain: dict[str, str] = {}
    for name in names:
        plain.setdefault(plain_name(name), name)
    found = {}
    for meaning, synonyms in SYNONYMS.items():
        column = next((plain[synonym] for synonym in synonyms if synonym in plain), None)
        if column is not None:
            found[meaning] = column
    if "date" in plain and found.get("time") != plain["date"]:
        clock = next((plain[clock] for clock in CLOCKS if clock in plain), None)
        if clock is not None and clock == found.get("time"):
            found |= {"time": plain["date"], "clock": clock}
    starting = [name for key, name in plain.items() if key.startswith(("date_", "datetime_", "time_", "timestamp_"))]
    if "time" not in found and starting and plain_name(starting[0]) not in CLOSE_TIMES:
        found["time"] = starting[0]
    if "time" not in found and "" in plain:  # a table of pandas without a name for its index
        found["time"] = plain[""]
    volumes = [name for key, name in plain.items() if key.startswith("volume_")]
    if "volume" not in found and volumes:
        found["volume"] = volumes[0]
    if "close" not in found and "adjusted" in found:
        found["close"] = found.pop("adjusted")
    return found


def check_columns(where: str, names: list[str], found: dict[str, str]) -> None:
    """Refuse a table without times or prices, or with two columns of one name."""
    plain = [plain_name(name) for name in names]
    for column in found.values():
        if plain.count(plain_name(column)) > 1:
            raise DataError(f"{where}: two columns are called {column!r}: rename or remove one of them")
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    if "time" not in found:
        ends = next((name for name in names if plain_name(name) in CLOSE_TIMES), None)
        more = f"; {ends} is the end of a bar: rename it to time and give --time-is end" if ends else ""
        raise DataError(f"{where}: no column of times: name it time, date or timestamp; the columns are {shown}{more}")
    if "close" not in found:
        raise DataError(f"{where}: no column of prices: name it close; the columns are {shown}")
    some = [name for name in ONE_PRICE if name in found]
    missing = [name for name in ONE_PRICE if name not in found]
    if some and missing:
        raise DataError(f"{where}: there is no column {', '.join(missing)}, but there is {', '.join(some)}: add it")
