"""A recorded league: a short run of hockey with six agents, and a tournament of four of them, two scripts and random
actions, six games a pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[2] / "data" / "recorded_leagues"
LEAGUE = "icehouse"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def games_of(league: Path) -> list[tuple[int, ...]]:
    """First, second, number, winner and length of each game."""
    names = ("first", "second", "number", "winner", "length")
    lines = lines_of(league / "games.jsonl")[1:]
    return [game for line in lines for game in zip(*(line[name] for name in names), strict=True)]
