"""What there is of markets in the folders that are shown: backtests, registries and paper accounts."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rookery.errors import RookeryError
from rookery.files import open_plain
from rookery.training.storage.run_record import as_object
from rookery.web.market_views.account_cache import AccountCache
from rookery.web.market_views.account_paths import LOG
from rookery.web.market_views.paper_details import paper_row
from rookery.web.market_views.registry_details import is_registry, registry_row
from rookery.web.market_views.stored_reports import StoredReports, short_report
from rookery.web.run_folders import RunFolders

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
    """A row, or the reason why there is none; None if it was deleted meanwhile."""
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
