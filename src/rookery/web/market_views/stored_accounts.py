"""The files of accounts and of backtests' reports in the folders that are shown: where they are, and what was read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from rookery.errors import FileError
from rookery.files import open_plain
from rookery.training.backtest.joined_account import read_account
from rookery.training.storage.registry_folder import OUTPUTS
from rookery.training.storage.run_record import as_object, number
from rookery.web.kept import Kept
from rookery.web.market_views.account_curves import AccountCurves
from rookery.web.market_views.paper_log import PaperLog
from rookery.web.run_folders import NotShown, RunFolders, file_stamp

MOST_BYTES = 128 << 20  # of files; the newest one is kept, whatever its size
MOST_LOGS = 64


class AccountCache:
    """Files of accounts, and logs of paper accounts. Every method reads files: call it in a thread."""

    def __init__(self) -> None:
        self._files = Kept[Path, AccountCurves](MOST_BYTES, lambda account: account.nbytes)
        self._logs = Kept[Path, PaperLog](MOST_LOGS)

    def curves(self, path: Path) -> AccountCurves:
        """The account in a file, read again if the file has changed."""
        return self._files.of(path, lambda: AccountCurves.from_rows(read_account(path)), file_stamp(path))

    def log(self, path: Path) -> PaperLog:
        """A log, with what was added to it in the meantime."""
        found = self._logs.of(path, lambda: PaperLog(path))
        found.refresh()
        return found


ID = re.compile(r"(report|paper|shadow)|(fold|version|gate|rival)-([0-9]{1,9})")
LOG = "log.jsonl"
Parts = tuple[str, ...]


def account_file(folders: RunFolders, place: str, name: str, account: str) -> Path:
    """The file of an account: a regular one in the folder that is shown. An error says that there is none."""
    return first_file(folders, place, name, *_places(account), what=f"account {account[:40]!r}")


def report_file(folders: RunFolders, place: str, name: str, version: int | None = None) -> Path:
    """The figures of a backtest."""
    places: list[Parts] = [("report", "report.json"), ("report.json",)]
    if version is not None:
        places = [(OUTPUTS, f"{version:06d}", "report", "report.json")]
    return first_file(folders, place, name, *places, what="backtest")


def first_file(folders: RunFolders, place: str, name: str, *places: Parts, what: str) -> Path:
    """The first of these files that is there."""
    for parts in places:
        try:
            return folders.file(place, name, *parts)
        except NotShown:
            continue
    folders.find(place, name)  # says that the folder itself is gone
    raise NotShown(f"there is no {what} in {place}/{name}")


def is_log(account: str) -> bool:
    """Whether an account grows in a log."""
    return account in ("paper", "shadow")


def _places(account: str) -> list[Parts]:
    found = ID.fullmatch(account)
    if found is None:
        raise NotShown(f"{account[:40]!r} is not the name of an account")
    alone, kind, digits = found.groups()
    if alone == "report":
        return [("report", "account.npy"), ("account.npy",)]
    if alone == "paper":
        return [("paper", LOG), (LOG,)]
    if alone == "shadow":
        return [("paper", "shadow", LOG), ("shadow", LOG)]
    if kind == "fold":
        return [("report", f"fold-{int(digits)}.npy"), (f"fold-{int(digits)}.npy",)]
    outputs = (OUTPUTS, f"{int(digits):06d}")
    if kind == "version":
        return [(*outputs, "report", "account.npy")]
    return [(*outputs, "gate", "candidate.npy" if kind == "gate" else "champion.npy")]


LARGEST_REPORT = 8 << 20  # bytes
MOST_REPORTS = 2000
TEXTS = ("verdict", "run", "world", "split", "checkpoint")
OBJECTS = ("data", "costs", "annualised_with", "agent", "hold", "equal_weight", "certainty", "by_period")
LISTS = ("notes", "by_asset", "by_fold", "fold_runs")
REPORTED = ("agent", "hold")
FIGURES = ("total_return", "sharpe", "max_drawdown")
Report = dict[str, Any]


class StoredReports:
    """Reports that were read, until their files change."""

    def __init__(self) -> None:
        self._known = Kept[Path, Report](MOST_REPORTS)

    def read(self, path: Path) -> Report:
        """What a report says. What is missing or of another kind than in a report is empty."""
        stamp = file_stamp(path)
        if stamp is None:
            raise FileNotFoundError(path)
        return self._known.of(path, lambda: checked_report(_read(path), stamp[2] / 1e9), stamp)


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
    figures = {f"{strategy}_{name}": number(report[strategy].get(name)) for strategy in REPORTED for name in FIGURES}
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
        data = file.read(LARGEST_REPORT + 1)
    if len(data) > LARGEST_REPORT:
        raise FileError(f"{path.name} is larger than {LARGEST_REPORT >> 20} MiB, the most that is read")
    found = as_object(data)
    if not found:
        raise FileError(f"{path.name} is damaged: it holds no report; `rookery backtest` writes it again")
    return found
