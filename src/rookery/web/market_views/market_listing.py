"""The lists of backtests, registries and paper accounts, and what the files of one registry say: who is champion and
challenger, each version with the gate's decision, and the log."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rookery.errors import RookeryError
from rookery.files import open_plain
from rookery.training.storage.registry_folder import (
    ALIASES,
    MARKER,
    OUTPUTS,
    read_about,
    read_state,
    version_path,
)
from rookery.training.storage.run_record import as_object
from rookery.web.market_views.paper_details import paper_row
from rookery.web.market_views.stored_accounts import LOG, AccountCache, StoredReports, short_report
from rookery.web.run_folders import RunFolders

DECISIONS = ("promote", "refuse")
MOST_VERSIONS = 500
LOG_TAIL = 8 << 20  # bytes of the log that are read, from its end
ABOUT = ("world", "study", "trial", "run", "run_path", "checkpoint", "step", "created", "data_hash", "evaluation")
Entry = dict[str, Any]


def is_registry(folder: Path) -> bool:
    """Whether a folder is a registry, by a regular file in it."""
    marker = folder / MARKER
    return marker.is_file() and not marker.is_symlink()


def registry_row(folder: Path) -> dict[str, Any]:
    """What the list of all registries shows."""
    state = read_state(folder)
    change = state.get("change") or {}
    return {
        "aliases": {alias: state[alias] for alias in ALIASES if alias in state},
        "versions": state.get("newest", 0),
        "changed": change.get("time"),
        "what": change.get("what"),
    }


def registry_details(folder: Path) -> dict[str, Any]:
    """A registry with its newest versions. A damaged version says so, and the others are there."""
    state = read_state(folder)
    entries, is_whole = read_entries(folder, state)
    newest = state.get("newest", 0)
    numbers = range(newest, max(0, newest - MOST_VERSIONS), -1)
    versions = [_version(folder, number, entries) for number in numbers if version_path(folder, number).is_dir()]
    aliases = {alias: state[alias] for alias in ALIASES if alias in state}
    return {
        "aliases": aliases,
        "versions": versions,
        "newest": newest,
        "entries": len(entries),
        "is_whole": is_whole,
        "compared": _compared(aliases, versions),
    }


def read_entries(folder: Path, state: dict[str, Any] | None = None) -> tuple[list[Entry], bool]:
    """The entries of the log, the oldest first, and whether these are all. The last change counts even if a killed
    process has not logged it."""
    state = read_state(folder) if state is None else state
    try:
        with os.fdopen(open_plain(folder / "audit.jsonl", os.O_RDONLY), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - LOG_TAIL))
            lines = file.read(LOG_TAIL).split(b"\n")[:-1]
    except FileNotFoundError:
        lines, size = [], 0
    if size > LOG_TAIL:
        lines = lines[1:]  # begins in the middle
    entries = [as_object(line) or {"what": "a line that is damaged"} for line in lines]
    last = state.get("change")
    if isinstance(last, dict) and (not entries or entries[-1].get("entry") != last["entry"]):
        entries.append(last)
    return entries, size <= LOG_TAIL


def _version(folder: Path, number: int, entries: Sequence[Entry]) -> dict[str, Any]:
    path = version_path(folder, number)
    found: dict[str, Any] = {"number": number, "error": None, "decision": _decision(number, entries)}
    outputs = folder / OUTPUTS / f"{number:06d}"
    found["accounts"] = [
        name
        for name, file in (
            (f"version-{number}", outputs / "report" / "account.npy"),
            (f"gate-{number}", outputs / "gate" / "candidate.npy"),
            (f"rival-{number}", outputs / "gate" / "champion.npy"),
        )
        if file.is_file()
    ]
    try:
        about = {} if path.is_symlink() else read_about(path)
    except RookeryError as error:
        return {**found, "error": str(error)}
    return {**found, **{key: about.get(key) for key in ABOUT}}


def _decision(number: int, entries: Sequence[Entry]) -> dict[str, Any] | None:
    """The last decision of a gate about a version."""
    for entry in reversed(entries):
        evidence = entry.get("evidence")
        if entry.get("version") != number or entry.get("what") not in DECISIONS or not isinstance(evidence, dict):
            continue
        figures, reasons = evidence.get("figures"), evidence.get("reasons")
        return {
            "what": entry["what"],
            "time": entry.get("time"),
            "champion": entry.get("from"),
            "passed": bool(evidence.get("passed")),
            "reasons": [str(reason) for reason in reasons] if isinstance(reasons, list) else [],
            "figures": figures if isinstance(figures, dict) else {},
        }
    return None


def _compared(aliases: dict[str, int], versions: Sequence[dict[str, Any]]) -> int | None:
    """The version whose comparison is shown first: the challenger's, else the champion's, else the newest one."""
    decided = [version["number"] for version in versions if version["decision"]]
    wanted = [aliases.get("challenger"), aliases.get("champion"), *decided]
    return next((number for number in wanted if number in decided), None)


LONGEST_HEAD = 64 << 10  # bytes of a log's first line
FRESH_SECONDS = 0.3  # readers within this time share one look
Row = dict[str, Any]


class MarketListing:
    """The lists of the first page. Every method reads files: call it in a thread."""

    def __init__(self, folders: RunFolders, cache: AccountCache, reports: StoredReports) -> None:
        self._folders, self._cache, self._reports = folders, cache, reports
        self._lock = threading.Lock()
        self._made: dict[str, list[Row]] = {}
        self._at = -FRESH_SECONDS

    def lists(self) -> dict[str, list[Row]]:
        """All of them, by place and name."""
        with self._lock:
            if time.monotonic() - self._at >= FRESH_SECONDS:
                self._made, self._at = self._look(), time.monotonic()
            return self._made

    def _look(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {"backtests": [], "registries": [], "papers": []}
        for place, name, folder in sorted(self._folders.children()):
            about = {"id": f"{place}/{name}", "place": place, "name": name}
            for kind, make in self._kinds(folder):
                row = _row(about, make)
                if row is not None:
                    found[kind].append(row)
        return found

    def _kinds(self, folder: Path) -> list[tuple[str, Callable[[], Row]]]:
        """What is in a folder, and how to read it."""
        kinds: list[tuple[str, Callable[[], Row]]] = []
        report = next(filter(_is_file, (folder / "report" / "report.json", folder / "report.json")), None)
        log = next(filter(_is_file, (folder / "paper" / LOG, folder / LOG)), None)
        if report is not None:
            kinds.append(("backtests", lambda: short_report(self._reports.read(report))))
        if is_registry(folder):
            kinds.append(("registries", lambda: registry_row(folder)))
        if log is not None and (log.parent.name == "paper" or is_account(log)):
            kinds.append(("papers", lambda: paper_row(self._cache.log(log))))
        return kinds


def is_account(log: Path) -> bool:
    """Whether a `log.jsonl` is of a paper account: a run may have a file of this name too."""
    try:
        with os.fdopen(open_plain(log, os.O_RDONLY), "rb") as file:
            return as_object(file.readline(LONGEST_HEAD)).get("kind") == "account"
    except OSError:
        return False


def _row(about: Row, make: Callable[[], Row]) -> Row | None:
    """A row, or the reason why there is none; None if it was deleted in the meantime."""
    try:
        return {**about, "error": None, **make()}
    except FileNotFoundError:
        return None
    except (RookeryError, OSError) as error:
        return {**about, "error": str(error)}


def _is_file(path: Path) -> bool:
    """Whether there is a regular file in a real folder: no link is followed."""
    try:
        return stat.S_ISDIR(os.lstat(path.parent).st_mode) and stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
