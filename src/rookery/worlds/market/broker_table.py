"""Reads a broker's table: CSV or TOML, or a table in Python, a row for each currency pair."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.data.importing.sources import plain_name
from rookery.errors import DataError, OptionError
from rookery.files import load_toml, read_plain
from rookery.worlds.market.broker import SPREAD_UNITS, SWAP_UNITS, WEEKDAYS, Broker, Terms
from rookery.worlds.market.market_tables import currencies

LARGEST = 1 << 20  # bytes of a file
AMOUNTS = ("swap_long", "swap_short", "spread")
NAMES = {
    "symbol": ("symbol", "pair", "instrument", "name"), "swap_long": ("swap_long", "long_swap", "swap_buy", "long"),
    "swap_short": ("swap_short", "short_swap", "swap_sell", "short"),
    "swap_unit": ("swap_unit", "swap_type", "swap_mode", "unit"), "spread": ("spread",),
    "spread_unit": ("spread_unit",), "digits": ("digits",),
    "triple": ("triple", "triple_day", "triple_swap", "3_day_swap", "3_days_swap"),
}  # fmt: skip


def read_broker(broker: Any) -> Broker:
    """The terms in a CSV or TOML file, or in a table {symbol: {"swap_long": ..., ...}}; None is a table without rows.

    In a TOML file, and in a table, what stands beside the symbols holds for all of them, such as `swap_unit`.

    >>> read_broker({"swap_unit": "points", "EURUSD": {"swap_long": -7.2, "swap_short": 2.1}}).rows[0].swap_long
    -7.2
    """
    if broker is None or isinstance(broker, Broker):
        return broker or Broker()
    if isinstance(broker, (str, Path)):
        path = Path(broker).expanduser()
        given = _read_file(path)
        place = printable(path)
    elif isinstance(broker, Mapping):
        given, place = broker, "broker"
    else:
        raise OptionError(f"broker should be the path of a CSV or TOML file, or a table by symbol, got {broker!r}")
    shared = {name: value for name, value in given.items() if not isinstance(value, Mapping)}
    found = {name: row for name, row in given.items() if isinstance(row, Mapping)}
    if not found:
        raise DataError(f"{place}: the broker's table has no pair; write rows such as EURUSD with a swap_long")
    rows = tuple(_terms(str(symbol), {**shared, **row}, place) for symbol, row in found.items())
    pairs = [currencies(row.symbol) for row in rows]
    for row, pair in zip(rows, pairs, strict=True):
        if pairs.count(pair) > 1:
            raise DataError(f"{place}: {row.symbol} has two rows")
    return Broker(rows)


def _read_file(path: Path) -> Mapping[str, Any]:
    try:
        text = read_plain(path, LARGEST).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{printable(path)}: is not UTF-8 text: save it as UTF-8") from None
    except OSError as error:
        raise DataError(f"{printable(path)}: the broker's table cannot be read ({error.strerror or error})") from None
    if path.suffix.lower() == ".toml":
        try:
            return load_toml(text)
        except tomllib.TOMLDecodeError as error:
            raise DataError(f"{printable(path)}: is not valid TOML: {error}") from None
    return _rows_of_csv(text, printable(path))


def _rows_of_csv(text: str, place: str) -> dict[str, dict[str, str]]:
    """The rows by symbol. Separated by commas, semicolons or tabs."""
    lines = [line for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else ""
    rows = csv.DictReader(io.StringIO("\n".join(lines)), delimiter=max(",;\t", key=first.count))
    named = {name: _known(plain_name(name)) for name in rows.fieldnames or () if name}
    if "symbol" not in named.values():
        raise DataError(f"{place}: the first line should name columns, such as symbol,swap_long,swap_short,swap_unit")
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        cells = {named[key]: (value or "").strip() for key, value in row.items() if key in named}
        symbol = cells.pop("symbol")
        if symbol in found:
            raise DataError(f"{place}: {printable(symbol)} has two rows")
        found[symbol] = {name: value for name, value in cells.items() if value}
    return found


def _known(name: str) -> str:
    """What a column is, by any of its names."""
    return next((known for known, others in NAMES.items() if name in others), name)


def _terms(symbol: str, row: Mapping[str, Any], place: str) -> Terms:
    """A row with its numbers and units checked."""
    where = f"{place}: {printable(symbol)}"
    given = {_known(plain_name(str(name))): value for name, value in row.items()}
    known = [field.name for field in fields(Terms)]
    unknown = [name for name in given if name not in known or name == "symbol"]
    if unknown:
        raise DataError(f"{where}: there is no column {unknown[0]!r} (there are {', '.join(known)})")
    currencies(symbol)
    found: dict[str, Any] = {name: _number(given[name], f"{where}: {name}") for name in AMOUNTS if name in given}
    if ("swap_long" in found) != ("swap_short" in found):
        raise DataError(f"{where}: swap_long and swap_short belong together: one of them is missing")
    if found.get("spread", 0.0) < 0:
        raise DataError(f"{where}: the spread is negative")
    if "swap_long" in found:
        found["swap_unit"] = _word(given.get("swap_unit"), SWAP_UNITS, f"{where}: swap_unit")
    if "spread" in found:
        found["spread_unit"] = _word(given.get("spread_unit"), SPREAD_UNITS, f"{where}: spread_unit")
    if "triple" in given:
        found["triple"] = _word(given["triple"], WEEKDAYS, f"{where}: triple")
    if "digits" in given:
        digits = _number(given["digits"], f"{where}: digits")
        if digits not in range(9):
            raise DataError(f"{where}: digits should be an integer from 0 to 8, got {digits:g}")
        found["digits"] = int(digits)
    return Terms(symbol, **found)


def _word(value: Any, words: Sequence[str], where: str) -> str:
    """One of these words, or its first letters."""
    text = str(value or "").strip().lower()
    found = [word for word in words if len(text) >= 3 and word.startswith(text)]
    if not found:
        raise DataError(f"{where} should be one of {', '.join(words)}, got {printable(text)!r}")
    return found[0]


def _number(value: Any, where: str) -> float:
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not np.isfinite(number):
        raise DataError(f"{where} should be a number, got {printable(str(value))!r}")
    return number
