"""Finds the columns of bars by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rookery.errors import DataError

SYNONYMS = {
    "time": ("time", "timestamp", "datetime", "date_time", "date", "open_time", "opentime", "start_time", "bar_time",
             "time_utc", "timestamp_utc", "datetime_utc", "gmt_time", "time_gmt", "local_time", "unix", "unix_time",
             "unix_timestamp", "epoch", "ts", "t", "index", "index_level_0", "time_start", "start", "begin",
             "time_open", "time_period_start", "time_eet", "etc_utc", "day"),
    "open": ("open", "o", "open_price", "opening_price"),
    "high": ("high", "h", "high_price"),
    "low": ("low", "l", "low_price"),
    "close": ("close", "c", "close_price", "closing_price", "last", "price", "close_last"),
    "volume": ("volume", "vol", "v", "base_volume", "tick_volume", "tickvol", "volume_base", "volume_usd"),
    "symbol": ("symbol", "ticker", "tic", "asset", "instrument", "pair", "coin", "name", "code"),
    "adjusted": ("adj_close", "adjclose", "adjusted_close", "close_adj", "adj"),
}  # fmt: skip
CLOSE_TIMES = ("close_time", "closetime", "end_time", "time_end", "time_close", "time_period_end")
CLOCKS = ("time", "hour", "clock")  # a column of hours beside one of dates
ONE_PRICE = ("open", "high", "low")


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
