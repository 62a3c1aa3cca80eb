"""The games of a tournament as they are played, from `games.jsonl`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.training.league.game_log import COLUMNS, LoggedPlayer
from rookery.training.league.pair_results import PairResults
from rookery.web.league_views.growing_lines import GrowingLines, Line
from rookery.web.league_views.plain_numbers import count_in, number_in, text_in

MOST_PLAYERS = 1000
MOST_GAMES = 2_000_000
LARGEST_SEED = 2**63 - 1
FIRST, SECOND, NUMBER, WINNER, LENGTH = range(len(COLUMNS))


@dataclass(frozen=True)
class Tournament:
    """What the first line says. `players` are in the order in which games name them."""

    id: str
    world: str
    games_per_pair: int
    seed: int
    players: tuple[LoggedPlayer, ...]
    time: float | None

    @property
    def games(self) -> int:
        """All games that are to be played."""
        return self.games_per_pair * len(self.players) * (len(self.players) - 1) // 2


class GameRecords:
    """The games that have ended. A file that another tournament replaces is read anew."""

    def __init__(self) -> None:
        self._lines = GrowingLines()
        self.tournament: Tournament | None = None
        self.played = 0
        self._parts: list[np.ndarray] = []

    def update(self, path: Path | None) -> None:
        """Read what is new in the file."""
        is_void, lines = self._lines.read(path)
        if is_void:
            self.tournament, self.played, self._parts = None, 0, []
        for line in lines:
            if self.tournament is None:
                self.tournament = read_header(line)
            elif self.played < MOST_GAMES:
                self._add(line, self.tournament)

    def _add(self, line: Line, tournament: Tournament) -> None:
        games = _columns(line)
        if games is None or not _fit(games, tournament):
            return
        self._parts.append(games)
        self.played += len(games)

    @property
    def games(self) -> np.ndarray:
        """One row for each game, with the columns of the file, in the order in which they ended."""
        if len(self._parts) != 1:
            self._parts = [np.concatenate([np.zeros((0, len(COLUMNS)), np.int64), *self._parts])]
        return self._parts[0]

    def results(self) -> PairResults:
        """How often each player has beaten each other."""
        assert self.tournament is not None
        return PairResults.of(len(self.tournament.players), self.games[:, :NUMBER], self.games[:, WINNER])

    def find(self, first: int, second: int, number: int) -> np.ndarray | None:
        """One game."""
        at = np.flatnonzero((self.games[:, :WINNER] == (first, second, number)).all(axis=1))
        return self.games[at[0]] if len(at) else None


def read_header(line: Line) -> Tournament | None:
    """The first line; None if it does not describe a tournament."""
    listed, seed = line.get("players"), line.get("seed")
    games, id = count_in(line.get("games_per_pair")), text_in(line.get("id"))
    if not isinstance(listed, list) or not 2 <= len(listed) <= MOST_PLAYERS or not games or id is None:
        return None
    players = tuple(_player(each) for each in listed if isinstance(each, dict))
    if len(players) != len(listed) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        return None
    return Tournament(id, text_in(line.get("world")) or "", games, seed, players, number_in(line.get("time")))


def _player(saved: dict[str, Any]) -> LoggedPlayer:
    texts = {key: text_in(saved.get(key)) for key in ("run", "source", "sha256")}
    return LoggedPlayer(text_in(saved.get("name")) or "?", step=count_in(saved.get("step")), **texts)


def _columns(line: Line) -> np.ndarray | None:
    columns = [line.get(name) for name in COLUMNS]
    if not all(isinstance(column, list) for column in columns):
        return None
    try:
        games = np.array(columns, np.int64)
    except (ValueError, TypeError, OverflowError):
        return None
    return games.T if games.ndim == 2 else None


def _fit(games: np.ndarray, tournament: Tournament) -> bool:
    """Whether these can be games of the tournament."""
    first, second, number, winner, length = games.T
    pairs = (first >= 0) & (first < second) & (second < len(tournament.players))
    known = (number >= 0) & (number < tournament.games_per_pair) & (np.abs(winner) <= 1) & (length >= 0)
    return bool((pairs & known).all())
