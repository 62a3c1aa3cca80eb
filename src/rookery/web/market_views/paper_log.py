"""What the lines of a paper account's log say, as columns that grow with them."""

from __future__ import annotations

import math
import os
import threading
from array import array
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson

from rookery.deploy.paper.account_files import MARK, checksum
from rookery.files import open_plain
from rookery.training.backtest.records import COSTS
from rookery.web.market_views.account_curves import PRICES, AccountCurves

LINE_COSTS = {"fees": "fees", "spread": "spread_cost", "impact": "impact_cost", "funding": "funding_cost"}
MOST_SYMBOLS = 1000
LATEST_FILLS, LATEST_STOPS = 100, 200
Line = Mapping[str, Any]


class PaperColumns:
    """The account so far. `add` takes the lines in order; any error of it means that a line is not what a log holds."""

    def __init__(self) -> None:
        self.head: Line = {}
        self.symbols: list[str] = []
        self.calendar = "24/7"
        self.version: int | None = None
        self.killed: dict[str, str] | None = None
        self.closing: Line | None = None
        self.positions: dict[str, float] = {}
        self.fills: deque[dict[str, Any]] = deque(maxlen=LATEST_FILLS)
        self.stops: deque[dict[str, Any]] = deque(maxlen=LATEST_STOPS)  # kills, resumptions, handovers
        self.num_fills = self.num_orders = self.waiting = self.missed = 0
        self._numbers = {name: array("d") for name in ("time", "agent", "traded", "trades", "exposed", PRICES, *COSTS)}
        self._weights: list[array[float]] = []
        self._closes: list[float] = []
        self._first_closes: list[float] = []
        self._equities: list[float] = []
        self._form: list[str] = []
        self._close_column = 3

    def __len__(self) -> int:
        """The number of bars."""
        return len(self._numbers["time"])

    def add(self, line: Line) -> None:
        """The next line."""
        kind = line["kind"]
        if kind == "account":
            self._begin(line)
        elif kind == "bar":
            self._bar(line)
        elif kind == "kill":
            self.killed, self.waiting = {"reason": str(line["reason"]), "why": str(line["why"])}, 0
            self.stops.append({"what": "stopped", "time": line["time"], **self.killed})
        elif kind == "resume":
            self.killed = None
            self.stops.append({"what": "resumed", "time": line["time"]})

    def curves(self) -> AccountCurves:
        """The account as it is now: copies, which do not grow."""
        numbers = {name: np.array(values) for name, values in self._numbers.items()}
        weights = {
            symbol: np.array(values, np.float32) for symbol, values in zip(self.symbols, self._weights, strict=True)
        }
        return AccountCurves(numbers.pop("time"), numbers, weights)

    def last(self, name: str) -> float | None:
        """The newest value of a column."""
        return self._numbers[name][-1] if len(self) else None

    def first(self, name: str) -> float | None:
        return self._numbers[name][0] if len(self) else None

    def total(self, name: str) -> float:
        return float(sum(self._numbers[name]))

    def _begin(self, line: Line) -> None:
        self.head = line
        self.symbols = [str(symbol) for symbol in line["symbols"][:MOST_SYMBOLS]]
        self._close_column = list(line["columns"]).index("close")
        self._weights = [array("d") for _ in self.symbols]
        self._closes = [math.nan] * len(self.symbols)
        self._first_closes = list(self._closes)

    def _bar(self, line: Line) -> None:
        if len(self) and line["time"] < self._numbers["time"][-1]:
            raise ValueError("a bar from before")
        row = self._row(line)  # everything of the line, before anything is added
        weights = self._weights_of(line, row["agent"])
        for name, value in row.items():
            self._numbers[name].append(value)
        for column, weight in zip(self._weights, weights, strict=True):
            column.append(weight)
        self._remember(line)

    def _row(self, line: Line) -> dict[str, float]:
        self._take_closes(line["bars"])
        row = dict.fromkeys((*COSTS, "traded", "exposed"), 0.0)
        for number, entry in enumerate(line["books"]):
            if entry is None:
                continue
            for kind, name in LINE_COSTS.items():
                row[kind] += float(entry[name])
            row["traded"] += float(entry["turnover"]) * self._equities[number]
            row["exposed"] += float(entry["exposure"]) * float(entry["equity"])
        equity = float(line["equity"])
        start = self._numbers["agent"][0] if len(self) else equity
        prices = start * self._price_level()
        return {**row, "time": int(line["time"]), "agent": equity, "trades": len(line["fills"]), PRICES: prices}

    def _take_closes(self, bars: Mapping[str, Any]) -> None:
        for place, symbol in enumerate(self.symbols):
            numbers = bars.get(symbol)
            if numbers is not None and numbers[self._close_column] is not None:
                self._closes[place] = float(numbers[self._close_column])
        if not len(self):
            self._first_closes = list(self._closes)

    def _price_level(self) -> float:
        """The mean of all prices, each as a part of its first one."""
        pairs = zip(self._closes, self._first_closes, strict=True)
        parts = [now / first for now, first in pairs if first > 0 and math.isfinite(now)]
        return sum(parts) / len(parts) if parts else math.nan

    def _weights_of(self, line: Line, equity: float) -> list[float]:
        """The positions as parts of the equity. What has no bar now keeps its position."""
        weights = [column[-1] if len(column) else 0.0 for column in self._weights]
        places = {symbol: place for place, symbol in enumerate(self.symbols)}
        for number, entry in enumerate(line["books"]):
            if entry is None or equity <= 0:
                continue
            held = [float(units) for units in entry["positions"]]
            if len(held) == len(self._form) > 1:
                for symbol, units in zip(self._form, held, strict=True):
                    weights[places[symbol]] = units * self._closes[places[symbol]] / equity
                    self.positions[symbol] = units
            else:
                (units,), symbol = held, self._form[number]
                part = float(entry["exposure"]) * float(entry["equity"]) / equity
                weights[places[symbol]] = math.copysign(part, units) if units else 0.0
                self.positions[symbol] = units
        return weights

    def _remember(self, line: Line) -> None:
        if "begin" in line:
            form = line["begin"]["form"]
            self._form, self.calendar = [str(symbol) for symbol in form["symbols"]], str(form["calendar"])
        version = line["version"]
        if version != self.version and self.version is not None:
            self.stops.append({"what": "handover", "time": line["time"], "from": self.version, "to": version})
        self.version, self.closing = version, line["closing"]
        self._equities = [float(equity) for equity in line["equities"]]
        self.fills.extend({**fill, "time": line["time"]} for fill in line["fills"])
        self.num_fills, self.num_orders = self.num_fills + len(line["fills"]), self.num_orders + len(line["orders"])
        self.waiting, self.missed = len(line["orders"]), self.missed + bool(line["missed"])


BLOCK = 1 << 20
MOST_AT_ONCE = 8 << 20  # bytes that one look reads: a longer log takes several
LONGEST_LINE = 4 << 20


class _Damaged(Exception):
    """A line is not what follows from those before it."""


class PaperLog:
    """A log that is looked at. `columns` is what it says; hold `lock` while you read them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.RLock()
        self.problem: str | None
        self._file: tuple[int, int]
        self._seen: tuple[int, int]
        self._offset: int
        self._lines: int
        self._forget()

    def refresh(self) -> None:
        """Read what was added. A log that was replaced or shortened is read from its beginning."""
        with self.lock, os.fdopen(open_plain(self.path, os.O_RDONLY), "rb") as file:
            found = os.fstat(file.fileno())
            own = found.st_dev, found.st_ino
            if own != self._file or found.st_size < self._offset:
                self._forget(own)
            stamp = found.st_size, found.st_mtime_ns
            if self.problem is not None and stamp == self._seen:
                return
            continues, self._seen = self._offset > 0, stamp
            if not self._read(file, found.st_size) and continues:  # it may be another log of the same name
                self._forget(own)
                self._read(file, found.st_size)

    def _forget(self, file: tuple[int, int] = (0, 0)) -> None:
        self.columns = PaperColumns()
        self.problem, self.is_complete = None, False
        self._file, self._seen = file, (0, 0)
        self._offset = self._lines = 0
        self._sum = b""

    def _read(self, file: BinaryIO, size: int) -> bool:
        """Take in what there is, up to a limit; False if a line is damaged."""
        self.problem = None
        try:
            rest = self._take_lines(file)
        except _Damaged:
            self.problem = f"line {self._lines + 1} of the log is damaged or was changed: it ends there"
            self.is_complete = True
            return False
        self.is_complete = self._offset + rest >= size
        return True

    def _take_lines(self, file: BinaryIO) -> int:
        """Take in complete lines; returns how many bytes of the next one are there."""
        file.seek(self._offset)
        limit, rest = self._offset + MOST_AT_ONCE, b""
        while self._offset < limit and (block := file.read(BLOCK)):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                self._take(line)
            if len(rest) > LONGEST_LINE:
                raise _Damaged
        return len(rest)

    def _take(self, text: bytes) -> None:
        body, mark, end = text.rpartition(MARK)
        total = checksum(self._sum, body + b"}")
        if not mark or end != total + b'"}':
            raise _Damaged
        try:
            line = orjson.loads(body + b"}")
            if line["seq"] != self._lines:
                raise _Damaged
            self.columns.add(line)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
            raise _Damaged from error
        self._sum, self._lines, self._offset = total, self._lines + 1, self._offset + len(text) + 1
