"""Where the accounts of a run, a walk-forward test, a registry or a paper account are, by short ids.

report        of a backtest                          report/account.npy, or account.npy
fold-2        of the second fold of it               report/fold-2.npy, or fold-2.npy
version-12    of the backtest of a version           outputs/000012/report/account.npy
gate-12       of a version, when the gate looked     outputs/000012/gate/candidate.npy
rival-12      of the champion, at the same time      outputs/000012/gate/champion.npy
paper         on paper                               paper/log.jsonl, or log.jsonl
shadow        of the challenger beside it            paper/shadow/log.jsonl, or shadow/log.jsonl
"""

from __future__ import annotations

import re
from pathlib import Path

from rookery.training.storage.registry_folder import OUTPUTS
from rookery.web.run_folders import NotShown, RunFolders

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
