"""The rows of all runs, remembered: a run whose files have not changed is not read again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_record import RunRecord, is_busy
from rookery.training.storage.runs_table import is_run
from rookery.web.run_folders import NotShown, RunFolders
from rookery.web.run_views.run_rows import QUIET_SECONDS, Row, last_words, quiet_after, row_from, with_stuck

FILES = ("metrics.jsonl", "evaluations.jsonl", "summary.json", "config.json", "run.json")
Stamp = tuple[Any, ...]
AnyRow = TypeVar("AnyRow", bound=Mapping[str, Any])


@dataclass(frozen=True)
class _Known:
    """A row as it was read, and what it was read from."""

    stamp: Stamp
    row: Row
    has_ended: bool
    quiet_after: float
    trouble: str | None


@dataclass
class _Place:
    """What is known of the runs in one place. Each has a lock of its own: a drive may not answer."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    known: dict[str, _Known] = field(default_factory=dict)
    moved: float = 0.0


class RunIndex:
    """Rows of the runs in all folders. `rows` and `row` read files: call them in a thread."""

    def __init__(
        self, folders: RunFolders, marks: Callable[[str, str], tuple[Sequence[str], bool]] | None = None
    ) -> None:
        """`marks` tells the tags of a run, and whether it is hidden."""
        self._folders, self._marks = folders, marks
        self._places: dict[str, _Place] = {}

    def rows(self, place: str) -> list[Row]:
        """The rows of the runs in one place, the newest first."""
        mine = self._of(place)
        with mine.lock:
            mine.moved = time.monotonic()
            found = [self._row(place, path) for *_, path in self._folders.children(place)]
            rows = [row for row in found if row is not None]
            for gone in mine.known.keys() - {row["name"] for row in rows}:
                del mine.known[gone]
        return newest_first(rows)

    def row(self, place: str, name: str) -> Row:
        """The row of one run, which must be shown."""
        path = self._folders.find(place, name)
        with self._of(place).lock:
            row = self._row(place, path)
        if row is None:
            raise NotShown(f"there is no run {name!r} in {place!r}")
        return row

    def moved(self, place: str) -> float:
        """When the last run of a place was looked at, by the monotonic clock."""
        return self._of(place).moved

    def _of(self, place: str) -> _Place:
        return self._places.setdefault(place, _Place())

    def _row(self, place: str, path: Path) -> Row | None:
        """The row of what is in a folder; None if that is no run, or is being deleted."""
        mine = self._of(place)
        mine.moved = time.monotonic()
        known, stamp = mine.known.get(path.name), _stamp(path)
        if known is None or known.stamp != stamp:
            known = _read(place, path, stamp)
            if known is None:
                return None
            mine.known[path.name] = known
        row = {**known.row, "state": _state_now(known, path)}
        if row["state"] != "running":
            row["eta_seconds"] = None
        row["tags"], row["hidden"] = self._marks(place, path.name) if self._marks else ([], False)
        return with_stuck(row, known.quiet_after, known.trouble)


def newest_first(rows: Iterable[AnyRow]) -> list[AnyRow]:
    return sorted(rows, key=lambda row: (-(row["created"] or 0.0), row["id"]))


def _read(place: str, path: Path, stamp: Stamp) -> _Known | None:
    if not any(stamp) and not is_run(path):
        return None
    record = RunRecord(RunDir(path), follow_links=False)
    row = row_from(place, record)
    has_ended = "reason" in record.last or row["state"] == "unreadable"
    quiet = QUIET_SECONDS if has_ended else quiet_after(record)
    return _Known(stamp, row, has_ended, quiet, last_words(record))


def _state_now(known: _Known, path: Path) -> str:
    """The state by its files is known; whether a process still works there is asked each time."""
    if known.has_ended:
        return str(known.row["state"])
    return "running" if is_busy(path / "run.lock") else "interrupted"


def _stamp(path: Path) -> Stamp:
    """Size and time of each file from which a row is read."""
    stamp: list[Any] = []
    folder = os.fspath(path)
    for name in FILES:
        try:
            facts = os.lstat(f"{folder}/{name}")
            stamp += [facts.st_ino, facts.st_size, facts.st_mtime_ns]
        except OSError:
            stamp.append(None)
    return tuple(stamp)
