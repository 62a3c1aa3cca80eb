"""The leagues in the folders that the dashboard shows, each with what was read of it."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

from rookery.errors import RookeryError
from rookery.training.league.game_log import FILE as GAMES
from rookery.training.league.league_files import StoredLeague
from rookery.training.league.rating_log import FILE as RATINGS
from rookery.training.league.tournament_report import FILE as REPORT
from rookery.training.league.tournament_report import TournamentReport, last_report
from rookery.web.league_views.game_records import GameRecords
from rookery.web.league_views.rating_history import RatingHistory
from rookery.web.league_views.training_league import league_in_checkpoint
from rookery.web.run_folders import NotShown, RunFolders

MOST_KEPT = 32  # leagues with their games
LARGEST_REPORT = 16 << 20  # bytes that are read of a tournament.json
FOLDER = "league"


class OpenLeague:
    """A league that somebody looks at. Hold `lock` while using it."""

    def __init__(self, place: str, name: str, folder: Path) -> None:
        self.place, self.name, self.folder = place, name, folder
        self.history, self.records = RatingHistory(), GameRecords()
        self.report: TournamentReport | None = None
        self.stored: StoredLeague | None = None
        self.error: str | None = None  # why the report cannot be read
        self.changed = 0.0  # when a game was last written
        self.lock = threading.Lock()
        self._marks: dict[str, Any] = {}

    def update(self, folders: RunFolders) -> None:
        """Read what is new."""
        ratings, games = (_file(folders, self.place, self.name, name) for name in (RATINGS, GAMES))
        self.history.update(ratings)
        self.records.update(games)
        self.changed = _modified(games)
        if self._has_changed(REPORT, _file(folders, self.place, self.name, REPORT)):
            self._read_report(folders)
        if ratings is None and self._has_changed("checkpoints", self.folder / "checkpoints"):
            self.stored = league_in_checkpoint(self.folder)

    def _has_changed(self, what: str, path: Path | None) -> bool:
        mark, known = _mark(path), self._marks.get(what, "never")
        self._marks[what] = mark
        return bool(mark != known)

    def _read_report(self, folders: RunFolders) -> None:
        self.report, self.error = None, None
        path = _file(folders, self.place, self.name, REPORT)
        if path is None:
            return
        try:
            if path.stat().st_size > LARGEST_REPORT:
                self.error = f"{REPORT} is larger than {LARGEST_REPORT >> 20} MiB, the most that is read"
            else:
                self.report = last_report(self.folder)
        except (RookeryError, OSError) as error:
            self.error = str(error)


class OpenLeagues:
    """All leagues by their ids."""

    def __init__(self, folders: RunFolders) -> None:
        self.folders = folders
        self._open: OrderedDict[tuple[str, str], OpenLeague] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, place: str, name: str) -> OpenLeague:
        """The league of this run."""
        folder = self.folders.find(place, name)
        if not is_league(folder):
            raise NotShown(f"there is no league of {name!r} in {place!r}")
        with self._lock:
            found = self._open.setdefault((place, name), OpenLeague(place, name, folder))
            self._open.move_to_end((place, name))
            while len(self._open) > MOST_KEPT:
                self._open.popitem(last=False)
            return found


def is_league(folder: Path) -> bool:
    """Whether a run has a league: a real folder with something in it."""
    path = folder / FOLDER
    try:
        if path.is_symlink():
            return False
        with os.scandir(path) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def _file(folders: RunFolders, place: str, name: str, file: str) -> Path | None:
    with suppress(NotShown):
        return folders.file(place, name, FOLDER, file)
    return None


def _mark(path: Path | None) -> Any:
    try:
        found = os.lstat(path) if path is not None else None
    except OSError:
        return None
    return found and (found.st_ino, found.st_size, found.st_mtime_ns)


def _modified(path: Path | None) -> float:
    mark = _mark(path)
    return mark[2] / 1e9 if mark else 0.0
