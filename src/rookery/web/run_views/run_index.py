"""The rows of all runs, remembered: a run whose files have not changed is not read again."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_record import RunRecord, is_busy
from rookery.training.storage.runs_table import is_run
from rookery.web.run_folders import NotShown, RunFolders
from rookery.web.run_views.run_rows import QUIET_SECONDS, Row, last_words, quiet_after, row_from, with_stuck

FILES = ("metrics.jsonl", "evaluations.jsonl", "summary.json", "config.json", "run.json")
Stamp = tuple[Any, ...]


@dataclass(frozen=True)
class _Known:
    """A row as it was read, and what it was read from."""

    stamp: Stamp
    row: Row
    has_ended: bool
    quiet_after: float
    trouble: str | None


class RunIndex:
    """Rows of the runs in all folders. Every method reads files: call it in a thread."""

    def __init__(
        self, folders: RunFolders, marks: Callable[[str, str], tuple[Sequence[str], bool]] | None = None
    ) -> None:
        """`marks` tells the tags of a run, and whether it is hidden."""
        self._folders, self._marks = folders, marks
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def rows(self, place: str | None = None) -> list[Row]:
        """The rows of the runs in one place or in all, the newest first."""
        with self._lock:
            found = [self._row(of, path) for of, _, path in self._folders.children() if place in (None, of)]
            rows = [row for row in found if row is not None]
            self._forget(place, {row["id"] for row in rows})
        return sorted(rows, key=lambda row: (-(row["created"] or 0.0), row["id"]))

    def row(self, place: str, name: str) -> Row:
        """The row of one run, which must be shown."""
        path = self._folders.find(place, name)
        with self._lock:
            row = self._row(place, path)
        if row is None:
            raise NotShown(f"there is no run {name!r} in {place!r}")
        return row

    def _forget(self, place: str | None, shown: set[str]) -> None:
        """Drop what is known of runs that are gone."""
        for gone in [run for run in self._known if run not in shown and place in (None, run.partition("/")[0])]:
            del self._known[gone]

    def _row(self, place: str, path: Path) -> Row | None:
        """The row of what is in a folder; None if that is no run, or is being deleted."""
        known = self._known.get(f"{place}/{path.name}")
        stamp = _stamp(path)
        if known is None or known.stamp != stamp:
            known = _read(place, path, stamp)
            if known is None:
                return None
            self._known[f"{place}/{path.name}"] = known
        row = {**known.row, "state": _state_now(known, path)}
        if row["state"] != "running":
            row["eta_seconds"] = None
        row["tags"], row["hidden"] = self._marks(place, path.name) if self._marks else ([], False)
        return with_stuck(row, known.quiet_after, known.trouble)


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
