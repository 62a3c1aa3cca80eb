"""The rows of all runs, remembered: a run whose files have not changed is not read again."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

from rookery.console import printable
from rookery.monitor.bottleneck import advise
from rookery.monitor.formatting import duration
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import experiment
from rookery.training.storage.run_record import RunRecord, is_busy, number
from rookery.training.storage.runs_table import first_known, is_run, row_of
from rookery.web.run_folders import NotShown, RunFolders

QUIET_SECONDS = 120.0  # without an event, after which a run may be stuck
QUIET_INTERVALS = 20  # or so many times its usual time between events
GAPS = 20  # between the last events, of which the median is the usual time
LONGEST_TEXT = 300
SORTED = json.JSONEncoder(sort_keys=True)
Row = dict[str, Any]


def row_from(place: str, record: RunRecord) -> Row:
    """The row of the run with these files. `stuck` is added by `with_stuck`, as it depends on the time."""
    known, name = row_of(record), record.run.path.name
    del known["path"], known["when"]
    return {**known, "id": f"{place}/{name}", "place": place, "name": name, **_more(record, known)}


def with_stuck(row: Row, quiet_after: float, trouble: str | None, now: float | None = None) -> Row:
    """The row, with a notice if a running run has had no event for long."""
    updated = row["updated"]
    silent = (time.time() if now is None else now) - updated if updated is not None else 0.0
    if row["state"] != "running" or silent < quiet_after:
        return {**row, "stuck": None}
    said = f" It last said: {trouble}" if trouble else ""
    # In steps of a minute, so that the row does not change all the time.
    return {**row, "stuck": f"No event for {duration(silent // 60 * 60)}.{said}"}


def quiet_after(record: RunRecord) -> float:
    """Seconds without an event after which the run is called stuck: long, for a run with few events."""
    events = islice(record.latest(), GAPS)
    times = [moment for event in events if (moment := number(event.get("time"))) is not None]
    gaps = [later - earlier for later, earlier in pairwise(times) if later > earlier]
    return max(QUIET_SECONDS, QUIET_INTERVALS * sorted(gaps)[len(gaps) // 2]) if gaps else 5 * QUIET_SECONDS


def last_words(record: RunRecord) -> str | None:
    """The text of the last event, if it is a note: what a worker or an env did before it became silent."""
    text = record.last.get("text") if record.last.get("kind") == "note" else None
    return printable(text)[:LONGEST_TEXT] if isinstance(text, str) else None


def _more(record: RunRecord, known: Row) -> Row:
    config, start, progress, last = record.config, record.start, record.progress, record.last
    total = first_known(number(config.get("steps")), number(start.get("steps")))
    running = known["state"] == "running"
    return {
        "total_steps": total,
        "share": _share(known["steps"], total, progress, record),
        "return": _episode_return(record),
        "eta_seconds": number(progress.get("eta_seconds")) if running else None,
        "bottleneck": _bottleneck(progress, {**start, **_facts(config)}),
        "seed": first_known(number(config.get("seed")), number(start.get("seed"))),
        "group": group_of(config),
        "created": first_known(number(record.birth.get("created")), number(start.get("time"))),
        "updated": first_known(number(last.get("time")), _modified(record.run.path)),
    }


def group_of(config: Mapping[str, Any]) -> str | None:
    """A short hash that runs have in common which differ in their seeds alone."""
    if not config:
        return None
    text = SORTED.encode(experiment(config))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


def _share(steps: float | None, total: float | None, progress: Mapping[str, Any], record: RunRecord) -> float | None:
    """How much of the run is done. A run by episodes says so itself."""
    if str(record.last.get("reason", "")).startswith("finished"):
        return 1.0
    if total and steps is not None:
        return min(1.0, max(0.0, steps / total))
    return number(progress.get("share"))


def _episode_return(record: RunRecord) -> float | None:
    """The mean return of the last episodes, which the progress events and the end tell."""
    last = number(record.progress.get("episode/return"))
    if last is None:
        last = number(record.last_event(lambda event: "episode/return" in event).get("episode/return"))
    return first_known(last, number(record.last.get("return_last_100")), number(record.summary.get("return_last_100")))


def _bottleneck(progress: Mapping[str, Any], facts: Mapping[str, Any]) -> str | None:
    try:
        return printable(advise(progress, facts)) or None
    except (TypeError, ValueError, OverflowError):  # figures or facts that somebody has written by hand
        return None


def _facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a resumed run may have changed since its first start."""
    names = ("backend", "num_envs", "workers", "groups", "device", "learner")
    return {name: config[name] for name in names if config.get(name) is not None}


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


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
        """The row of what is in a folder; None if that is not a run, or is being deleted."""
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
    """The state by its files is known; whether a process still works there is checked each time."""
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
