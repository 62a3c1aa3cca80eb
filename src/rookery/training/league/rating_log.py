"""The ratings of a league over the steps of its run: `ratings.jsonl` in the league's folder.

A line holds the players whose ratings have changed since the line before:

    {"step": 2048, "time": 1.7e9, "players": {"the learner": {"kind": "learner", "mu": 27.1, "sigma": 1.9}, ...}}

Players other than the learner also have the learner's games against them, as in `rookery league`: `won`, `drawn`,
`lost` and `win_rate`. A member of the archive has the `step` at which it entered.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from rookery.files import own_folder
from rookery.monitor.jsonl import append_record, open_append_only

FILE = "ratings.jsonl"
LINES = 200  # in a run, about, besides those for agents that enter
KEYS = ("kind", "step", "mu", "sigma", "won", "drawn", "lost", "win_rate")
DIGITS = 4


class RatingLog:
    """Appends lines. After a resume the first line has all players."""

    def __init__(self, folder: Path, total_steps: int) -> None:
        self._folder, self._every = Path(folder), max(1, total_steps // LINES)
        self._known: dict[str, dict[str, Any]] = {}

    def due(self, before: int, steps: int) -> bool:
        """Whether a line should be written between `before` and `steps`."""
        return steps // self._every != before // self._every

    def append(self, step: int, rows: list[dict[str, Any]]) -> None:
        """Write the rows that have changed; see `league_rows`."""
        now = {row["name"]: _short(row) for row in rows}
        changed = {name: row for name, row in now.items() if self._known.get(name) != row}
        if not changed:
            return
        line = json.dumps({"step": step, "time": time.time(), "players": changed}, separators=(",", ":"))
        with open_append_only(own_folder(self._folder, parents=False) / FILE) as file:
            append_record(file, line.encode() + b"\n")
        self._known = now


def _short(row: dict[str, Any]) -> dict[str, Any]:
    known = {key: row[key] for key in KEYS if row[key] is not None}
    return {key: round(value, DIGITS) if isinstance(value, float) else value for key, value in known.items()}
