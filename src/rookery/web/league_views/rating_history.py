"""The ratings of a training run's league over its steps, from `ratings.jsonl`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rookery.training.league.ratings import STANDARD_DEVIATIONS
from rookery.web.league_views.growing_lines import GrowingLines, Line
from rookery.web.league_views.plain_numbers import count_in, number_in, text_in

MOST_PLAYERS = 1000
MOST_POINTS = 400  # of all curves; a run writes about 200
KINDS = ("learner", "member", "retired", "other")
COUNTS = ("won", "drawn", "lost")
Row = dict[str, Any]


class RatingHistory:
    """The players as the last lines have them, and their ratings at each line."""

    def __init__(self) -> None:
        self._lines = GrowingLines()
        self._clear()

    def update(self, path: Path | None) -> None:
        """Read what is new in the file."""
        is_void, lines = self._lines.read(path)
        if is_void:
            self._clear()
        for line in lines:
            self._add(line)

    def _clear(self) -> None:
        self.steps: list[int] = []
        self.updated: float | None = None
        self.players: dict[str, Row] = {}
        self._points: dict[str, list[tuple[int, float, float]]] = {}  # place of the line, mean, standard deviation

    def _add(self, line: Line) -> None:
        step, players = count_in(line.get("step")), line.get("players")
        if step is None or not isinstance(players, dict) or (self.steps and step < self.steps[-1]):
            return
        self.steps.append(step)
        self.updated = number_in(line.get("time"))
        for name, values in players.items():
            row, known = rating_row(name, values), name in self.players
            if row is not None and (known or len(self.players) < MOST_PLAYERS):
                self.players[name] = row
                self._points.setdefault(name, []).append((len(self.steps) - 1, row["mu"], row["sigma"]))
        if len(self.steps) > 2 * MOST_POINTS:
            self._thin_out()

    def _thin_out(self) -> None:
        """Keep every second line; ratings of the others move to the line after."""
        last = len(self.steps) - 1
        self.steps = [step for at, step in enumerate(self.steps) if at % 2 or at == last]
        for name, points in self._points.items():
            self._points[name] = list({at // 2: (at // 2, mu, sigma) for at, mu, sigma in points}.values())

    def rows(self) -> list[Row]:
        """The players, the best first and retired ones last."""
        return sorted(self.players.values(), key=lambda row: (row["kind"] == "retired", -row["rating"]))

    def curves(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """Mean and standard deviation at each of `steps`, null where they have not changed."""
        return [{"name": self.players[name]["name"], **self._curve(name)} for name in names if name in self._points]

    def _curve(self, name: str) -> dict[str, Any]:
        mu: list[float | None] = [None] * len(self.steps)
        sigma: list[float | None] = [None] * len(self.steps)
        for at, mean, deviation in self._points[name]:
            mu[at], sigma[at] = mean, deviation
        return {"mu": mu, "sigma": sigma}


def rating_row(name: str, values: Any) -> Row | None:
    """A player as the table of a league has it; None if the values are none."""
    if not isinstance(values, dict) or values.get("kind") not in KINDS:
        return None
    mu, sigma, title = number_in(values.get("mu")), number_in(values.get("sigma")), text_in(name)
    if mu is None or sigma is None or title is None:
        return None
    counts = {key: count_in(values.get(key)) for key in COUNTS}
    known = [count for count in counts.values() if count is not None]
    return {
        "name": title, "kind": values["kind"], "step": count_in(values.get("step")), "mu": mu, "sigma": sigma,
        "rating": mu - STANDARD_DEVIATIONS * sigma, "games": sum(known) if len(known) == len(COUNTS) else None,
        **counts, "win_rate": number_in(values.get("win_rate")),
    }  # fmt: skip
