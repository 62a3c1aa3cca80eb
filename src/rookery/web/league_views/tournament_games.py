"""The games of a tournament as they are played, from `games.jsonl`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.training.league.ratings import PairResults
from rookery.training.league.tournament_report import COLUMNS, LoggedPlayer, TournamentReport
from rookery.web.league_views.growing_lines import GrowingLines, Line, count_in, number_in, text_in
from rookery.web.league_views.match_players import can_replay
from rookery.web.queries import choice_of, integer_of

MOST_PLAYERS = 1000
MOST_GAMES = 2_000_000
LARGEST_SEED = 2**63 - 1
ON_A_PAGE, MOST_ON_A_PAGE = 50, 200
RESULTS = {"won": 1, "drawn": 0, "lost": -1}
QUIET_SECONDS = 60.0  # without a new game, after which a tournament is not being played any more
MOST_IN_MATRIX = 60  # players
MOST_LISTED = 500  # players
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
    """The games that have ended. A file that another tournament replaces is read again."""

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


def match_page(records: GameRecords, query: Mapping[str, str]) -> dict[str, Any]:
    """Matches of a `player` (its index) `against` another, with a `result` for the first, the latest first; `limit` of
    them from `offset` on. Columns are those of the file, seen from the player who was requested."""
    tournament = records.tournament
    if tournament is None:
        return {"id": None, "total": 0, "offset": 0, **{name: [] for name in COLUMNS}}
    player, against = (integer_of(query, key, most=len(tournament.players) - 1) for key in ("player", "against"))
    games = _seen_from(records.games, against if player is None else player)
    if player is not None and against is not None:
        games = games[games[:, SECOND] == against]
    if result := choice_of(query, "result", ("", *RESULTS)):
        games = games[games[:, WINNER] == RESULTS[result]]
    offset, limit = integer_of(query, "offset") or 0, min(MOST_ON_A_PAGE, integer_of(query, "limit") or ON_A_PAGE)
    page = games[::-1][offset : offset + limit]
    columns = dict(zip(COLUMNS, np.ascontiguousarray(page.T), strict=True))
    return {"id": tournament.id, "total": len(games), "offset": offset, **columns}


def _seen_from(games: np.ndarray, player: int | None) -> np.ndarray:
    """The games of a player, who is the first of both in all of them; all games if none is named."""
    if player is None:
        return games
    games = games[(games[:, FIRST] == player) | (games[:, SECOND] == player)].copy()
    other = games[:, FIRST] != player
    games[other, FIRST], games[other, SECOND] = player, games[other, FIRST]
    games[other, WINNER] *= -1
    return games


def tournament_view(records: GameRecords, report: TournamentReport | None, changed: float) -> dict[str, Any] | None:
    """The tournament in `games.jsonl`, or that of the report from before there was such a file. `changed` is when a
    game was last written."""
    if records.tournament is None:
        return None if report is None else _of_report(report)
    tournament = records.tournament
    rated = report if report is not None and report.id == tournament.id else None
    return {
        "id": tournament.id, "world": tournament.world, "games_per_pair": tournament.games_per_pair,
        "seed": str(tournament.seed), "time": tournament.time, "games": tournament.games, "played": records.played,
        "state": _state(records, tournament, rated, changed), "has_matches": True,
        "spearman": rated.agreement() if rated else None,
        **_players_and_matrix(records.results(), list(tournament.players), _ratings(tournament, rated)),
    }  # fmt: skip


def _state(records: GameRecords, tournament: Tournament, rated: TournamentReport | None, changed: float) -> str:
    """ "playing", "finished", or "not finished" if it was broken off."""
    if records.played < tournament.games and time.time() - changed < QUIET_SECONDS:
        return "playing"
    return "finished" if rated is not None or records.played >= tournament.games else "not finished"


def _of_report(report: TournamentReport) -> dict[str, Any]:
    players = [LoggedPlayer(entry.name, entry.run, entry.step) for entry in report.entries]
    ratings = [(rating.mu, rating.sigma, rating.value) for rating in report.ratings]
    played = int(report.results.games.sum()) // 2
    return {
        "id": None, "world": report.world, "games_per_pair": report.games, "seed": str(report.seed),
        "time": report.time, "state": "finished", "games": played, "played": played, "has_matches": False,
        "spearman": report.agreement(), **_players_and_matrix(report.results, players, ratings),
    }  # fmt: skip


def _ratings(tournament: Tournament, report: TournamentReport | None) -> list[Any]:
    """Mean, deviation and lower bound of each player, None where they are not known yet."""
    if report is None:
        return [None] * len(tournament.players)
    by_name = dict(zip((entry.name for entry in report.entries), report.ratings, strict=True))
    found = [by_name.get(player.name) for player in tournament.players]
    return [None if rating is None else (rating.mu, rating.sigma, rating.value) for rating in found]


def _players_and_matrix(results: PairResults, players: list[LoggedPlayer], ratings: list[Any]) -> dict[str, Any]:
    """Rows and matrices, the best first; `index` is a player's place in the file of the games."""
    won, drawn, games = (part.sum(1) for part in (results.won, results.drawn, results.games))
    score = (won + 0.5 * drawn) / np.maximum(games, 1)
    order = sorted(range(len(players)), key=lambda k: (-ratings[k][2] if ratings[k] else 0.0, -score[k], k))
    rows = [
        {
            "index": k, "name": players[k].name, "run": players[k].run, "step": players[k].step,
            "replayable": can_replay(players[k]), **_rating(ratings[k]), "games": int(games[k]), "won": int(won[k]),
            "drawn": int(drawn[k]), "lost": int(games[k] - won[k] - drawn[k]),
            "score": float(score[k]) if games[k] else None,
        }
        for k in order[:MOST_LISTED]
    ]  # fmt: skip
    shown = np.array(order[:MOST_IN_MATRIX], np.int64)
    matrices = {name: getattr(results, name)[np.ix_(shown, shown)] for name in ("won", "drawn")}
    return {"players": rows, "player_count": len(players), **matrices}


def _rating(rating: Any) -> dict[str, float | None]:
    mu, sigma, value = rating or (None, None, None)
    return {"mu": mu, "sigma": sigma, "rating": value}
