"""The files of a paper account: its log, the bars before it, events for people, and what the account is worth now.

The log has JSON lines that are only ever appended. Each line has a number and a checksum over itself and all lines
before it. A line is on the disk before anything follows from it. An unfinished line of a killed process is removed at
the next start: it never counted.

`events.jsonl` says when the bars of a feed came, and has alerts, by this machine's clock. It is for people who look at
the account. The account itself follows from its log alone, so that times of arrival are not in there, and nothing of
this file is ever read to trade.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rookery.console import printable, say
from rookery.data.dataset import Dataset
from rookery.data.feeds.fetch import time_name
from rookery.data.storage import read, write
from rookery.deploy.paper.bar_sources import with_lines
from rookery.errors import DataError, FileError, RunError
from rookery.files import named, open_plain, sync_folder
from rookery.monitor.jsonl import append_record, open_append_only
from rookery.training.storage.run_lock import Lock

MARK = b', "sum": "'
SUM_LETTERS = 16
Line = dict[str, Any]
FORMAT = 1
SHADOW = "shadow"
NAME = "events.jsonl"
TIMES = ("since", "last_bar")


class AccountLog:
    """The log of an account, opened to append to it. `lines` holds what it had when it was opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        is_new = not path.exists()
        self.lines, self._sum, length = ([], b"", 0) if is_new else _parsed(path)
        self._next = len(self.lines)
        self._file = open_append_only(path)
        if is_new:
            sync_folder(path.parent)
        if self._file.seek(0, os.SEEK_END) > length:
            self._file.truncate(length)
            os.fsync(self._file.fileno())

    def append(self, line: Line) -> None:
        """Write a line. It is on the disk when this returns."""
        body = json.dumps({"seq": self._next, **line}, allow_nan=False).encode()
        total = checksum(self._sum, body)
        with named(self.path):
            append_record(self._file, body[:-1] + MARK + total + b'"}\n')
            os.fsync(self._file.fileno())
        self._sum, self._next = total, self._next + 1

    def close(self) -> None:
        self._file.close()


def read_log(path: Path) -> list[Line]:
    """The lines of a log, checked. An unfinished last line does not count."""
    return _parsed(path)[0]


def checksum(before: bytes, body: bytes) -> bytes:
    """Of a line, by that of the line before it.

    >>> checksum(b"", b'{"seq": 0}')
    b'291c962cc476324e'
    """
    return hashlib.sha256(before + body).hexdigest()[:SUM_LETTERS].encode()


def _parsed(path: Path) -> tuple[list[Line], bytes, int]:
    """The lines, the last checksum, and the length of all complete lines in bytes."""
    lines: list[Line] = []
    total, length = b"", 0
    for text in _complete_lines(path):
        body, mark, end = text.rpartition(MARK)
        total, line = checksum(total, body + b"}"), _object(body + b"}")
        if not mark or end != total + b'"}\n' or line.get("seq") != len(lines):
            raise FileError(
                f"{printable(path)}: line {len(lines) + 1} is damaged or was changed: its checksum is wrong. Bring the "
                "file back from a copy, or begin a new account in another folder with --account"
            )
        lines.append(line)
        length += len(text)
    return lines, total, length


def _object(body: bytes) -> Line:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _complete_lines(path: Path) -> Iterator[bytes]:
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        for text in file:
            if text.endswith(b"\n"):
                yield text


class AccountFolder:
    """Where an account is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log, self.history, self.lock = path / "log.jsonl", path / "history.parquet", path / "paper.lock"

    def locked(self) -> Lock:
        """The lock of the process that trades; RunBusy if another one does."""
        self.path.mkdir(parents=True, exist_ok=True)
        return Lock(self.lock)

    @property
    def has_begun(self) -> bool:
        """Whether the account has a first line."""
        return self.log.is_file() and bool(read_log(self.log))

    def create(self, dataset: Dataset, start: int, about: dict[str, Any]) -> tuple[AccountLog, Dataset]:
        """Write the bars before `start` and the head of the log. Until that line is there, there is no account."""
        self.path.mkdir(parents=True, exist_ok=True)
        before = dataset.select(end=start - 1)
        write(before, self.history)
        history = read(self.history)
        log = AccountLog(self.log)
        head = {
            "kind": "account", "format": FORMAT, **about, "start": start, "symbols": list(history.symbols),
            "timeframe": history.timeframe, "columns": list(history.bars[0].columns), "history": history.hash,
        }  # fmt: skip
        log.append(head)
        log.lines = [head]
        return log, history

    def open(self) -> tuple[AccountLog, Dataset]:
        """The log, and all bars that the account knows."""
        log = AccountLog(self.log)
        try:
            return log, self.bars(log.lines)
        except BaseException:
            log.close()
            raise

    def lines(self) -> list[Line]:
        """The lines of the log, read without the lock."""
        if not self.log.is_file():
            raise RunError(f"there is no paper account in {printable(self.path)}: `rookery paper` begins one")
        lines = read_log(self.log)
        if not lines:
            raise RunError(f"the paper account in {printable(self.path)} has no bar yet")
        return lines

    def bars(self, lines: list[Line]) -> Dataset:
        """The bars before the first line, and those of the lines."""
        head = lines[0]
        if head.get("format") != FORMAT:
            raise DataError(
                f"{printable(self.log)} has the format {head.get('format')!r:.40}, and this version of rookery reads "
                f"format {FORMAT}"
            )
        history = read(self.history).select(head["symbols"])
        if history.hash != head["history"]:
            raise DataError(f"{printable(self.history)} holds other bars than those that the account began with")
        return with_lines(history, [line for line in lines if line["kind"] == "bar"])


class AccountEvents:
    """The events of an account, which are appended. A failure to write is reported once, and stops nothing."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._has_failed = False

    def arrived(self, bar: int) -> None:
        """A bar of a feed was taken in, and its line is in the log."""
        self._append({"kind": "bar", "time": bar})

    def alert(self, alert: str, text: str) -> None:
        """An alert was sent, or would have been if there were somebody to send it to."""
        self._append({"kind": "alert", "alert": alert, "text": text})

    def _append(self, event: dict[str, Any]) -> None:
        try:
            with open_append_only(self.path) as file:
                append_record(file, json.dumps({**event, "at": round(time.time(), 3)}).encode() + b"\n")
        except OSError as error:
            if not self._has_failed:
                say(f"{self.path} cannot be written ({error.strerror or error}): trading continues without it")
            self._has_failed = True


@dataclass(frozen=True)
class PaperStatus:
    """An account, as the last line of its log says.

    Attributes:
        account: Its folder.
        agents: Who trades: the registry and its alias, or the run.
        version: The number of the version that trades; 0 for a run.
        since: The first bar, in seconds since 1970.
        last_bar: The last one.
        equity, start_equity: What it is worth, and what it began with.
        drawdown: The part of its highest value that it has lost; after a resumption, since then.
        positions: Units by symbol.
        fills, orders, costs: How many, and what they cost in all.
        waiting: Orders for the next bar.
        handover: The version that takes over once nothing is held.
        killed: Why the kill-switch has stopped it; None if it has not.
        shadow: The same of the challenger's account, if there is one.
    """

    account: str
    agents: str
    version: int | None
    since: int
    last_bar: int
    bars: int
    equity: float
    start_equity: float
    drawdown: float
    positions: dict[str, float]
    fills: int
    orders: int
    costs: float
    waiting: int
    handover: int | None
    killed: dict[str, str] | None
    shadow: PaperStatus | None = None

    def as_json(self) -> dict[str, Any]:
        """With times as texts."""
        return _with_time_names(asdict(self))


def read_status(folder: AccountFolder) -> PaperStatus:
    """The status of an account. It needs no lock: a process may trade in the meantime."""
    lines = folder.lines()
    bars = [line for line in lines if line["kind"] == "bar"]
    if not bars:
        return PaperStatus(
            str(folder.path), lines[0]["agents"], None, lines[0]["start"], lines[0]["start"], 0, 0.0, 0.0, 0.0, {}, 0,
            0, 0.0, 0, None, None,
        )  # fmt: skip
    last, after = bars[-1], lines[lines.index(bars[-1]) + 1 :]
    killed = after[-1] if after and after[-1]["kind"] == "kill" else None
    resumed = any(line["kind"] == "resume" for line in after)
    peak = last["equity"] if resumed else last["peak"]
    closing = last["closing"] or {}
    shadow = AccountFolder(folder.path / SHADOW)
    return PaperStatus(
        account=str(folder.path),
        agents=lines[0]["agents"],
        version=last["version"],
        since=bars[0]["time"],
        last_bar=last["time"],
        bars=len(bars),
        equity=last["equity"],
        start_equity=bars[0]["equity"],
        drawdown=1.0 - last["equity"] / peak if peak > 0 else 0.0,
        positions=_positions(bars),
        fills=sum(len(line["fills"]) for line in bars),
        orders=sum(len(line["orders"]) for line in bars),
        costs=sum(_costs(line) for line in bars),
        waiting=0 if killed else len(last["orders"]),
        handover=closing.get("version"),
        killed=None if killed is None else {"reason": killed["reason"], "why": killed["why"]},
        shadow=read_status(shadow) if shadow.has_begun else None,
    )


def _positions(bars: list[Line]) -> dict[str, float]:
    """Units by symbol: the sum of all fills would carry rounding, so the last entry of each account counts."""
    found: dict[str, float] = {}
    form: list[str] = []
    for line in bars:
        form = line["begin"]["form"]["symbols"] if "begin" in line else form
        for number, entry in enumerate(line["books"]):
            if entry is not None:
                names = form if len(entry["positions"]) == len(form) else [form[number]]
                found |= dict(zip(names, entry["positions"], strict=True))
    return found


def _costs(line: Line) -> float:
    kinds = ("fees", "spread_cost", "impact_cost", "funding_cost")
    return sum(entry[kind] for entry in line["books"] if entry is not None for kind in kinds)


def _with_time_names(found: dict[str, Any]) -> dict[str, Any]:
    shadow = found.get("shadow")
    named = {name: time_name(value) if name in TIMES else value for name, value in found.items()}
    return named | {"shadow": None if shadow is None else _with_time_names(shadow)}
