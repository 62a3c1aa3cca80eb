"""The matches of a tournament, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.training.league.game_log import COLUMNS
from rookery.web.league_views.game_records import FIRST, SECOND, WINNER, GameRecords

MOST_ON_A_PAGE = 200
RESULTS = {"won": 1, "drawn": 0, "lost": -1}


def match_page(records: GameRecords, query: Mapping[str, str]) -> dict[str, Any]:
    """Matches of a `player` (its index) `against` another, with a `result` for the first, the latest first; `limit` of
    them from `offset` on. Columns are those of the file, seen from the player who was asked for."""
    tournament = records.tournament
    if tournament is None:
        return {
            "id": None,
            "total": 0,
            "offset": 0,
            "first": [],
            "second": [],
            "number": [],
            "winner": [],
            "length": [],
        }
    player, against = (_index(query, key, len(tournament.players)) for key in ("player", "against"))
    games = _seen_from(records.games, against if player is None else player)
    if player is not None and against is not None:
        games = games[games[:, SECOND] == against]
    if query.get("result"):
        if query["result"] not in RESULTS:
            raise ValueError(f"result should be won, drawn or lost, got {query['result'][:40]!r}")
        games = games[games[:, WINNER] == RESULTS[query["result"]]]
    offset, limit = _number(query, "offset", 0), min(MOST_ON_A_PAGE, _number(query, "limit", 50))
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


def _index(query: Mapping[str, str], key: str, count: int) -> int | None:
    if not query.get(key):
        return None
    found = _number(query, key, 0)
    if found >= count:
        raise ValueError(f"there are {count} players, and no {key} {found}")
    return found


def _number(query: Mapping[str, str], key: str, default: int) -> int:
    text = query.get(key) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ValueError(f"{key} should be a whole number, got {text[:40]!r}")
    return int(text)
