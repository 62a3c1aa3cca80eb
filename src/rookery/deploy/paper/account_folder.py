"""The folder of a paper account: its log, the bars before it, and a lock.

log.jsonl          every bar, order and fill: only ever appended; never rotate it
history.parquet    the bars before the first line, from which features are computed
paper.lock         held by the process that trades
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.data.dataset import Dataset
from rookery.data.storage import read, write
from rookery.deploy.paper.account_log import AccountLog, Line, read_log
from rookery.deploy.paper.arrived_bars import with_lines
from rookery.errors import DataError, RunError
from rookery.training.storage.run_lock import Lock

FORMAT = 1
SHADOW = "shadow"


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
