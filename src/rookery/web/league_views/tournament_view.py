"""A tournament as the page shows it, while it is played and afterwards."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from rookery.training.league.game_log import LoggedPlayer
from rookery.training.league.pair_results import PairResults
from rookery.training.league.tournament_report import TournamentReport
from rookery.web.league_views.game_records import GameRecords, Tournament
from rookery.web.league_views.match_players import can_replay

QUIET_SECONDS = 60.0  # without a new game, after which a tournament is not being played any more
MOST_IN_MATRIX = 60  # players
MOST_LISTED = 500  # players


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
