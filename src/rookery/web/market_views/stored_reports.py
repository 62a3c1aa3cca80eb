"""The figures of backtests, as `report.json` has them: files that may be from anybody."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from rookery.errors import FileError
from rookery.files import open_plain
from rookery.training.storage.run_record import as_object, number

LARGEST = 8 << 20  # bytes
MOST_KEPT = 2000
TEXTS = ("verdict", "run", "world", "split", "checkpoint")
OBJECTS = ("data", "costs", "annualised_with", "agent", "hold", "equal_weight", "certainty", "by_period")
LISTS = ("notes", "by_asset", "by_fold", "fold_runs")
STRATEGIES = ("agent", "hold")
FIGURES = ("total_return", "sharpe", "max_drawdown")
Report = dict[str, Any]


class StoredReports:
    """Reports that were read, until their files change."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[Any, Report]] = {}
        self._lock = threading.Lock()

    def read(self, path: Path) -> Report:
        """What a report says. What is missing or of another kind than in a report is empty."""
        found = os.lstat(path)
        stamp = found.st_ino, found.st_size, found.st_mtime_ns
        with self._lock:
            known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = stamp, checked_report(_read(path), found.st_mtime)
            with self._lock:
                if len(self._known) >= MOST_KEPT:
                    self._known.clear()
                self._known[path] = known
        return known[1]


def checked_report(found: dict[str, Any], written: float) -> Report:
    """The parts of a report that are what they should be; `written` is when, in seconds since 1970."""
    texts = {name: found[name] if isinstance(found.get(name), str) else None for name in TEXTS}
    objects = {name: found[name] if isinstance(found.get(name), dict) else {} for name in OBJECTS}
    lists = {name: found[name] if isinstance(found.get(name), list) else [] for name in LISTS}
    for name in ("by_asset", "by_fold"):
        lists[name] = [row for row in lists[name] if isinstance(row, dict)]
    for name in ("notes", "fold_runs"):
        lists[name] = [text for text in lists[name] if isinstance(text, str)]
    return {**texts, **objects, **lists, "written": written}


def short_report(report: Report) -> dict[str, Any]:
    """What the list of all backtests shows."""
    figures = {f"{strategy}_{name}": number(report[strategy].get(name)) for strategy in STRATEGIES for name in FIGURES}
    data = report["data"]
    symbols = [str(symbol) for symbol in data.get("symbols") or [] if isinstance(symbol, str)]
    return {
        **{name: report[name] for name in ("verdict", "world", "split", "written")},
        **figures,
        "symbols": symbols[:20],
        "folds": len(report["by_fold"]),
        "trades": number(report["agent"].get("trades")),
        "p_value": number(report["certainty"].get("p_value")),
    }


def _read(path: Path) -> dict[str, Any]:
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise FileError(f"{path.name} is larger than {LARGEST >> 20} MiB, the most that is read")
    found = as_object(data)
    if not found:
        raise FileError(f"{path.name} is damaged: it holds no report; `rookery backtest` writes it anew")
    return found
