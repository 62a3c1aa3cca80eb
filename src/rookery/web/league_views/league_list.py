"""The list of all leagues: each from the ends of its files, read again only when they have changed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from rookery.files import open_plain, pread
from rookery.training.league.archive import NAME as MEMBER
from rookery.training.league.game_log import FILE as GAMES
from rookery.training.league.league_rows import LEARNER
from rookery.training.league.rating_log import FILE as RATINGS
from rookery.training.league.tournament_report import FILE as REPORT
from rookery.web.league_views.game_records import read_header
from rookery.web.league_views.growing_lines import parse_line
from rookery.web.league_views.open_leagues import FOLDER, is_league
from rookery.web.league_views.rating_history import rating_row
from rookery.web.run_folders import NotShown, RunFolders

ENDS_BYTES = 1 << 18  # of a file's beginning and end
MOST_MEMBERS = 10_000  # folders that are counted
Row = dict[str, Any]


class LeagueList:
    """Rows of the leagues in all folders. `run_row` gives a run's state and world."""

    def __init__(self, folders: RunFolders, run_row: Callable[[str, str], Row]) -> None:
        self._folders, self._run_row = folders, run_row
        self._known: dict[str, tuple[Any, Row]] = {}
        self._lock = threading.Lock()

    def rows(self) -> list[Row]:
        """A row for each league, by place and name."""
        with self._lock:
            found = [self._row(place, name, path) for place, name, path in self._folders.children() if is_league(path)]
            rows = [row for row in found if row is not None]
            shown = {row["id"] for row in rows}
            self._known = {id: known for id, known in self._known.items() if id in shown}
        return sorted(rows, key=lambda row: row["id"])

    def _row(self, place: str, name: str, path: Path) -> Row | None:
        id, mark = f"{place}/{name}", _marks(path / FOLDER)
        known = self._known.get(id)
        if known is None or known[0] != mark:
            known = mark, {"id": id, "place": place, "name": name, **_read(path / FOLDER)}
            self._known[id] = known
        try:
            run = self._run_row(place, name)
        except NotShown:  # deleted meanwhile, or no run
            return {**known[1], "state": None, "world": None} if path.is_dir() else None
        return {**known[1], "state": run["state"], "world": run["world"]}


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
    found = read_header(parse_line(_beginning(folder / GAMES).partition(b"\n")[0]) or {})
    return None if found is None else {"players": len(found.players), "games": found.games, "time": found.time}


def _members(folder: Path) -> int:
    try:
        with os.scandir(folder) as entries:
            return sum(1 for entry in islice(entries, MOST_MEMBERS) if MEMBER.fullmatch(entry.name))
    except OSError:
        return 0


def _beginning(path: Path) -> bytes:
    return _part(path, 0)


def _end(path: Path) -> bytes:
    """The end of a file, after a line break: what is before the first one may be half a line."""
    start = _size(path) - ENDS_BYTES
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


def _size(path: Path) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _modified(path: Path) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _marks(folder: Path) -> Any:
    return [(_size(path), _modified(path)) for path in (folder, *(folder / name for name in (RATINGS, GAMES, REPORT)))]
