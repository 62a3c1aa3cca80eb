"""The leagues in the folders that the dashboard shows: each with what was read of it, and the list of all, which is
read from the ends of their files when these have changed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from rookery.errors import RookeryError
from rookery.files import open_plain, pread
from rookery.training.league.archive import LEARNER, StoredLeague
from rookery.training.league.archive import NAME as MEMBER
from rookery.training.league.ratings import RATINGS_FILE as RATINGS
from rookery.training.league.tournament_report import GAMES_FILE as GAMES
from rookery.training.league.tournament_report import REPORT_FILE as REPORT
from rookery.training.league.tournament_report import TournamentReport, last_report
from rookery.web.kept import Kept
from rookery.web.league_views.growing_lines import parse_line
from rookery.web.league_views.league_ratings import RatingHistory, league_in_checkpoint, rating_row
from rookery.web.league_views.tournament_games import GameRecords, read_header
from rookery.web.run_folders import NotShown, RunFolders, file_stamp

MOST_KEPT, MOST_LISTED = 32, 10_000  # leagues with their games; and rows of the list
LARGEST_REPORT = 16 << 20  # bytes that are read of a tournament.json
FOLDER = "league"
ENDS_BYTES = 1 << 18  # of a file's beginning and end
MOST_MEMBERS = 10_000  # folders that are counted
Row = dict[str, Any]


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
        mark, known = file_stamp(path), self._marks.get(what, "never")
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
    def __init__(self, folders: RunFolders) -> None:
        self.folders = folders
        self._open = Kept[tuple[str, str], OpenLeague](MOST_KEPT)

    def find(self, place: str, name: str) -> OpenLeague:
        folder = self.folders.find(place, name)
        if not is_league(folder):
            raise NotShown(f"there is no league of {name!r} in {place!r}")
        return self._open.of((place, name), lambda: OpenLeague(place, name, folder))


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


def _modified(path: Path | None) -> float:
    stamp = file_stamp(path)
    return stamp[2] / 1e9 if stamp else 0.0


class LeagueList:
    """Rows of the leagues in all folders. `run_row` gives a run's state and world."""

    def __init__(self, folders: RunFolders, run_row: Callable[[str, str], Row]) -> None:
        self._folders, self._run_row = folders, run_row
        self._known = Kept[str, Row](MOST_LISTED)

    def rows(self) -> list[Row]:
        """A row for each league, by place and name."""
        found = [self._row(place, name, path) for place, name, path in self._folders.children() if is_league(path)]
        return sorted(filter(None, found), key=lambda row: row["id"])

    def _row(self, place: str, name: str, path: Path) -> Row | None:
        id, folder = f"{place}/{name}", path / FOLDER
        mark = [file_stamp(folder), *(file_stamp(folder / file) for file in (RATINGS, GAMES, REPORT))]
        known = self._known.of(id, lambda: {"id": id, "place": place, "name": name, **_read(folder)}, mark)
        try:
            run = self._run_row(place, name)
        except NotShown:  # deleted in the meantime, or no run
            return {**known, "state": None, "world": None} if path.is_dir() else None
        return {**known, "state": run["state"], "world": run["world"]}


def _read(folder: Path) -> Row:
    learner = _last_rating(folder / RATINGS)
    return {
        "agents": _members(folder), "learner": learner, "tournament": _last_tournament(folder),
        "updated": max((_modified(folder / name) for name in (RATINGS, GAMES, REPORT)), default=0.0) or None,
    }  # fmt: skip


def _last_rating(path: Path) -> Row | None:
    """The learner's rating in the last line that has it."""
    for line in reversed(_end(path).split(b"\n")[1:]):
        players = (parse_line(line) or {}).get("players")
        row = rating_row(LEARNER, players.get(LEARNER)) if isinstance(players, dict) else None
        if row is not None:
            return {"mu": row["mu"], "sigma": row["sigma"], "step": row["step"]}
    return None


def _last_tournament(folder: Path) -> Row | None:
    """How large the last tournament is, and when it began."""
    found = read_header(parse_line(_part(folder / GAMES, 0).partition(b"\n")[0]) or {})
    return None if found is None else {"players": len(found.players), "games": found.games, "time": found.time}


def _members(folder: Path) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(1 for entry in islice(entries, MOST_MEMBERS) if MEMBER.fullmatch(entry.name))
    except OSError:
        return 0


def _end(path: Path) -> bytes:
    """The end of a file, after a line break: what is before the first one may be half a line."""
    start = (file_stamp(path) or (0, 0, 0))[1] - ENDS_BYTES
    return _part(path, start) if start > 0 else b"\n" + _part(path, 0)


def _part(path: Path, start: int) -> bytes:
    try:
        fd = open_plain(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return pread(fd, ENDS_BYTES, start)
    finally:
        os.close(fd)
