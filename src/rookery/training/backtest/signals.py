"""Files of signals: times and targets, or one row per trade with its entry and exit. A signal holds until the next one,
and is used at the first bar that is complete when the signal is known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import printable, say
from rookery.data.bar_files import kind_of, read_parquet
from rookery.data.calendars import DAY, timeframe_name
from rookery.data.dataset import Bars, Dataset
from rookery.data.importing.sources import ImportOptions, SourceTable, find_columns, plain_name
from rookery.data.importing.tables import PREAMBLE, decoded, header_of, refuse_second_header, text_table
from rookery.data.importing.times import seconds
from rookery.errors import DataError
from rookery.extras import load_polars

# Names of columns. The first column of these whose values can be read is the signal.
SIGNALS = ("signal", "signals", "target", "target_position", "position", "pos", "weight", "allocation", "exposure",
           "side", "action", "direction", "order", "type", "prediction")  # fmt: skip
ENTRIES = ("entry_time", "entrytime", "entry_date", "entry_timestamp", "entry", "open_date", "open_time", "opened",
           "opened_at", "time_in", "date_in")  # fmt: skip
EXITS = ("exit_time", "exittime", "exit_date", "exit_timestamp", "exit", "close_date", "close_time", "closed",
         "closed_at", "time_out", "date_out")  # fmt: skip
SIDES = ("side", "direction", "type", "position", "action", "signal")
WEIGHTS = ("weight", "allocation", "exposure")
LONG = ("long", "buy", "enter_long", "entry_long", "open_long", "true", "bullish")
SHORT = ("short", "sell", "enter_short", "entry_short", "open_short", "bearish")
OUT = ("flat", "exit", "close", "none", "neutral", "cash", "out", "cover", "exit_long", "exit_short", "close_long",
       "close_short", "sell_to_close", "buy_to_cover", "false")  # fmt: skip
KEEP = ("hold", "keep", "wait", "")  # what was before
WORDS = {**dict.fromkeys(LONG, 1.0), **dict.fromkeys(SHORT, -1.0), **dict.fromkeys(OUT, 0.0)}
SHOWN = "buy, sell, long, short, flat, exit, hold"
EXAMPLE = "add a line such as time,signal"
DAYS = r"^\s*(?:\d{1,4}[-./]\d{1,2}[-./]\d{1,4}|\d{8})(?:[T ]+0?0:00(?::00(?:\.0+)?)?\D*)?\s*$"  # without a time of day


class Signals:
    """A rule that follows signals. The target after a bar is the last signal that was known when it was complete."""

    def __init__(self, signals: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
        self._signals = signals

    def __call__(self, bars: Bars) -> np.ndarray:
        times, targets = self._signals.get(bars.symbol, self._signals.get("", (np.empty(0), np.empty(0))))
        last = np.searchsorted(times, bars.times, side="right") - 1
        return np.where(last >= 0, targets[np.maximum(last, 0)], 0.0) if len(times) else np.zeros(len(bars))


@dataclass(frozen=True)
class _Rows:
    """One signal per row, with the symbol that it is for; "" if the file names none."""

    table: SourceTable
    times: np.ndarray
    targets: np.ndarray  # NaN: as before
    symbols: list[str]

    def where(self, kept: np.ndarray) -> _Rows:
        rows = np.flatnonzero(kept)
        return _Rows(self.table.rows(rows), self.times[rows], self.targets[rows], [self.symbols[row] for row in rows])


def read_signals(path: Path, data: Dataset, time_is: str | None = None, timezone: str | None = None) -> Signals:
    """The signals of a file for these bars.

    Args:
        path: CSV or Parquet.
        data: The bars.
        time_is: Whether a signal has the time at which its bar begins, as in the files of most sources ("start"), or
            the time at which it was known ("end"). If omitted, times between the beginnings of bars are of the second
            kind, and others of the first.
        timezone: Of times that name none; if omitted, that of the imported bars.
    """
    zone, day_first = timezone or _imported(data, "timezone"), _imported(data, "day_first")
    table, options = _table(path, data), ImportOptions(timezone=zone, day_first=day_first)
    columns = {plain_name(name): name for name in reversed(table.frame.columns)}
    if len(table.frame) == 0:
        raise DataError(f"{printable(path)}: there is a header, but no signal below it")
    if _first(ENTRIES, columns) and _first(EXITS, columns):
        rows = _by_trade(table, columns, options, data)
        time_is = time_is or "end"
    else:
        rows = _by_time(table, columns, options, data)
        time_is = time_is or _kind_of_times(rows, data)
    known = rows.times + (data.timeframe if time_is == "start" else 0)
    return Signals(_by_symbol(replace(rows, times=known), data))


def _table(path: Path, data: Dataset) -> SourceTable:
    if kind_of(path) == "parquet":
        frame = read_parquet(path)
        return SourceTable(str(path), "signals", frame, np.arange(len(frame)))
    text = decoded(path)
    lines = text.split("\n", PREAMBLE + 1)
    found = header_of(lines, lambda fields: _is_header(fields, data))
    if found is None:
        raise DataError(f"{printable(path)}: {_without_header(lines)}")
    table = text_table(path, "signals", text, *found)
    refuse_second_header(table, table.frame.columns[0])
    return table


def _is_header(fields: Iterable[str], data: Dataset) -> bool:
    names = [plain_name(name) for name in fields]
    timed = "time" in find_columns(names) and (_first(SIGNALS, names) or _of_symbols(names, data))
    return bool(timed or (_first(ENTRIES, names) and _first(EXITS, names)))


def _without_header(lines: list[str]) -> str:
    """Why no line is a header."""
    number, first = next(((k, line) for k, line in enumerate(lines, 1) if line.strip()), (1, ""))
    if re.match(r'^"?\d', first):
        return f"line {number} holds values, but should name the columns: {EXAMPLE}"
    shown = printable(first.strip("\ufeff"))[:120]
    return f"give columns time and signal, or a row per trade with entry_time and exit_time; line {number} is {shown}"


def _first(names: Iterable[str], among: Iterable[str]) -> str | None:
    return next((name for name in names if name in among), None)


def _imported(data: Dataset, option: str) -> Any:
    """An option with which the bars were imported, for signals that do not say it."""
    return next((entry[option] for entry in data.history if option in entry), None)


def _by_time(table: SourceTable, columns: dict[str, str], options: ImportOptions, data: Dataset) -> _Rows:
    found = find_columns(table.frame.columns)
    if "time" not in found:
        raise table.refusal(f"there is no column of times: name it time; the columns are {', '.join(columns)}")
    times, _ = seconds(table, found["time"], found.get("clock"), options)
    names = [columns[name] for name in SIGNALS if name in columns and columns[name] != found["time"]]
    if names:
        symbols = _symbols(table, found, data)
        return _Rows(table, times, _readable(table, names), symbols)
    wide = _of_symbols(columns, data)
    rows = np.tile(np.arange(len(times)), len(wide))
    targets = np.concatenate([_targets(table, columns[name]) for name in wide])
    return _Rows(table.rows(rows), times[rows], targets, [symbol for symbol in wide.values() for _ in times])


def _of_symbols(names: Iterable[str], data: Dataset) -> dict[str, str]:
    """The columns that are named as symbols are."""
    symbols = {_letters(symbol): symbol for symbol in data.symbols}
    return {name: symbols[_letters(name)] for name in names if _letters(name) in symbols}


def _letters(symbol: str) -> str:
    """
    >>> _letters("BTC/USD") == _letters("btc-usd")
    True
    """
    return re.sub(r"[^a-z0-9]", "", symbol.lower())


def _symbols(table: SourceTable, found: dict[str, str], data: Dataset) -> list[str]:
    """The symbol of each row, as the bars write it."""
    if "symbol" not in found:
        return [""] * len(table.frame)
    names = table.frame[found["symbol"]].cast(load_polars().String).fill_null("").to_list()
    own = {_letters(symbol): symbol for symbol in data.symbols}
    table.refuse_where(
        [_letters(name) not in own for name in names],
        lambda row: (
            f"there are no bars of {printable(names[row]) or 'a symbol without a name'}; they are of "
            f"{', '.join(data.symbols)}: write that, or omit the column {found['symbol']}"
        ),
    )
    return [own[_letters(name)] for name in names]


def _readable(table: SourceTable, names: list[str]) -> np.ndarray:
    """The targets of the first column that can be read, or those of a direction and its weight; an error about the
    first column if none can be read."""
    found, errors = {}, []
    for name in names:
        try:
            found[name] = _targets(table, name)
        except DataError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    weight = next((name for name in found if plain_name(name) in WEIGHTS), None)
    side = next((name for name in found if plain_name(name) not in WEIGHTS and _is_direction(found[name])), None)
    return _sized(table, side, weight) if side and weight else next(iter(found.values()))


def _is_direction(targets: np.ndarray) -> bool:
    """Whether targets are -1, 0 and 1 only: they do not say how much."""
    return bool(np.isin(targets[np.isfinite(targets)], (-1, 0, 1)).all())


def _sized(table: SourceTable, side: str, weight: str) -> np.ndarray:
    """A direction times its weight. Where weights have a sign of their own, it must be that of the direction."""
    directions, sizes = _targets(table, side), _targets(table, weight)
    table.refuse_where((np.nan_to_num(directions) != 0) & np.isnan(sizes), f"{weight} is missing")
    sizes = np.nan_to_num(sizes)
    if not (sizes < 0).any():
        return directions * sizes
    table.refuse_where(
        directions * sizes < 0,
        lambda row: f"{side} is {printable(table.frame[side][row])}, but {weight} is {sizes[row]:g}: remove one column",
    )
    return np.abs(directions) * sizes


def _targets(table: SourceTable, column: str) -> np.ndarray:
    """Numbers from -1 to 1; NaN for what says that nothing changes."""
    polars, series = load_polars(), table.frame[column]
    texts = series.cast(polars.String).fill_null("").str.strip_chars().str.to_lowercase()
    plain = texts.str.replace(",", ".", literal=True)
    parts = np.where(plain.str.ends_with("%").to_numpy(), 0.01, 1.0)
    numbers = plain.str.strip_chars_end("% ").cast(polars.Float64, strict=False).fill_null(float("nan")).to_numpy()
    numbers = numbers * parts
    words = texts.str.replace_all(r"[\s-]+", "_")
    for word, value in WORDS.items():
        numbers[(words == word).to_numpy()] = value
    keeps = np.isin(words.to_list(), (*KEEP, "nan"))
    unread = f"is not a signal: give -1 to 1, or {SHOWN}"
    table.refuse_where(~np.isfinite(numbers) & ~keeps, lambda row: f"{printable(repr(series[row]))} {unread}")
    table.refuse_where(
        np.abs(numbers) > 1,
        lambda row: (
            f"the signal {numbers[row]:g} is not from -1 to 1: give the part of the account to hold; percents have a %"
        ),
    )
    return numbers


def _by_trade(table: SourceTable, columns: dict[str, str], options: ImportOptions, data: Dataset) -> _Rows:
    """Two signals per trade: its target at the entry, and none at the exit, if it has ended."""
    begin, end = columns[_first(ENTRIES, columns) or ""], columns[_first(EXITS, columns) or ""]
    entered, _ = seconds(table, begin, None, options)
    ended = table.frame[end].is_not_null().to_numpy()
    left = np.full(len(entered), np.iinfo(np.int64).max)
    if ended.any():
        left[ended] = seconds(table.rows(np.flatnonzero(ended)), end, None, options)[0]
    table.refuse_where(left < entered, f"{end} is before {begin}")
    others = [name for name in table.frame.columns if name not in (begin, end)]
    symbols = _symbols(table, find_columns(others), data)
    order = np.lexsort((entered, np.array(symbols)))
    same = np.array(symbols)[order][1:] == np.array(symbols)[order][:-1]
    table.rows(order).refuse_where(
        np.append(False, same & (entered[order][1:] < left[order][:-1])),
        "this trade begins before the last one of its symbol ends: join trades that overlap to one",
    )
    side, weight = _first(SIDES, columns), _first(WEIGHTS, columns)
    if side and weight:
        targets = _sized(table, columns[side], columns[weight])
    else:
        targets = _targets(table, columns[side or weight or ""]) if side or weight else np.ones(len(entered))
    if "is_short" in columns:
        targets = np.where(_targets(table, columns["is_short"]) > 0, -targets, targets)
    rows = np.concatenate([np.arange(len(entered)), np.flatnonzero(ended)])
    times, targets = np.append(entered, left[ended]), np.append(targets, np.zeros(int(ended.sum())))
    return _Rows(table.rows(rows), times, targets, [symbols[row] for row in rows])


def _are_days(rows: _Rows) -> bool:
    """Whether no signal has a time of day."""
    found = find_columns(rows.table.frame.columns)
    texts = rows.table.frame[found["time"]].cast(load_polars().String)
    return bool((rows.times % DAY == 0).all() or ("clock" not in found and texts.str.contains(DAYS).all()))


def _kind_of_times(rows: _Rows, data: Dataset) -> str:
    """Whether times are those at which bars begin. Days without a time of day could be known at their end only."""
    if data.timeframe < DAY and len(rows.times) > 1 and _are_days(rows):
        raise DataError(
            f"{printable(rows.table.place)}: the signals name days, and the bars are of "
            f"{timeframe_name(data.timeframe)}: import the bars with --timeframe 1d, or give --time-is end if each "
            "signal was known when its day began"
        )
    begins = (data.bars[0].times[0] - data.timeframe) % data.timeframe
    off = (rows.times - begins) % data.timeframe != 0
    if not off.any():
        return "start"
    say(
        f"{printable(rows.table.place)}: {int(off.sum()):,} of {len(off):,} signals are between the starts of bars: "
        "all times are taken as those at which a signal was known, and orders fill at the next open (--time-is start "
        "takes them as the starts of bars)"
    )
    return "end"


def _by_symbol(rows: _Rows, data: Dataset) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Times and targets of each symbol, the oldest first. At one time an entry counts more than an exit."""
    rows = rows.where(~np.isnan(rows.targets))
    first, last = min(bars.times[0] for bars in data.bars), max(bars.times[-1] for bars in data.bars)
    if not ((rows.times < last) & (rows.times > first - 10 * DAY)).any():
        raise DataError(
            f"{printable(rows.table.place)}: no signal is within the bars, which are from "
            f"{np.datetime64(int(first), 's')} to {np.datetime64(int(last), 's')} (UTC): is the time zone right?"
        )
    late = int((rows.times >= last).sum())
    if late:
        say(f"{printable(rows.table.place)}: {late:,} signals are after the last bar, and are not used")
    found = {}
    for symbol in dict.fromkeys(rows.symbols):
        mine = rows.where(np.array([name == symbol for name in rows.symbols]))
        order = np.lexsort((mine.targets != 0, mine.times))
        times, targets = mine.times[order], mine.targets[order]
        twice = np.append(False, (np.diff(times) == 0) & (targets[1:] != targets[:-1]) & (targets[:-1] != 0))
        mine.table.rows(order).refuse_where(twice, "another signal has the same time: keep one of them")
        found[symbol] = times, targets
    return found
