"""A match of a tournament that a page wants to see again, as its process is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rookery.web.league_views.game_records import LENGTH, WINNER, GameRecords
from rookery.web.league_views.match_players import replay_player
from rookery.web.run_folders import NotShown, RunFolders


@dataclass(frozen=True)
class ReplayRequest:
    """A session that plays one game again.

    Attributes:
        run: The path of the run whose world is played in.
        name: What the page calls it.
        players: Name, kind ("agent", "script", "shipped" or "random") and value of both.
        seed: That of the tournament.
        number: Of the game within the pair.
        winner: 1 if the first of `players` won, 0 for a draw, -1 if it lost.
        length: In steps.
    """

    run: str
    name: str
    players: list[dict[str, Any]]
    seed: int
    number: int
    winner: int
    length: int

    def as_json(self) -> str:
        return json.dumps({"replay": asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> ReplayRequest | None:
        """None if this is another kind of request."""
        found = json.loads(text).get("replay")
        return None if found is None else cls(**found)


def read_replay(query: Mapping[str, str], folders: RunFolders) -> ReplayRequest:
    """The match that an address names: `league=PLACE/NAME&tournament=ID&first=0&second=3&number=7`."""
    place, _, name = query.get("league", "").partition("/")
    run, records = folders.find(place, name), GameRecords()
    records.update(folders.file(place, name, "league", "games.jsonl"))
    tournament = records.tournament
    if tournament is None or tournament.id != query.get("tournament"):
        raise NotShown("that tournament is not there any more: another has been played since")
    first, second, number = (_number(query, key) for key in ("first", "second", "number"))
    game = records.find(min(first, second), max(first, second), number)
    if game is None:
        raise NotShown(f"the tournament has no match {number} of these players")
    players = [replay_player(tournament.players[k], place, folders) for k in sorted((first, second))]
    title = " against ".join(player["name"] for player in players)
    return ReplayRequest(str(run), title, players, tournament.seed, number, int(game[WINNER]), int(game[LENGTH]))


def _number(query: Mapping[str, str], key: str) -> int:
    text = query.get(key, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise NotShown(f"{key} should be a whole number, got {text[:40]!r}")
    return int(text)
