"""The league of a training run: its players, who is drawn next, and their ratings over the steps."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rookery.config.sections import LeagueOptions
from rookery.errors import RookeryError
from rookery.training.league.archive import LEARNER, StoredLeague, stored_league
from rookery.training.league.league import draw_chances
from rookery.training.league.league_table import stored_rows
from rookery.training.league.ratings import STANDARD_DEVIATIONS
from rookery.training.storage.run_dir import RunDir
from rookery.web.league_views.growing_lines import GrowingLines, Line, count_in, number_in, text_in

MOST_LISTED = 500
MOST_CURVES = 24
SCRIPTED = ("weak", "strong")
MOST_PLAYERS = 1000
MOST_POINTS = 400  # of all curves; a run writes about 200
KINDS = ("learner", "member", "retired", "other")
COUNTS = ("won", "drawn", "lost")
Row = dict[str, Any]


def training_view(history: RatingHistory, stored: StoredLeague | None, config: dict[str, Any]) -> dict[str, Any] | None:
    """The players as the run wrote them last; of a run from before it did, as its last checkpoint has them."""
    if history.players:
        rows, step, updated = history.rows(), history.steps[-1], history.updated
    elif stored is not None:
        rows, step, updated = stored_rows(stored), stored.step, None
    else:
        return None
    chances = _chances(rows, config)
    listed = [{**row, "chance": chances.get(row["name"])} for row in rows[:MOST_LISTED]]
    return {"step": step, "updated": updated, "players": listed, "player_count": len(rows)}


def rating_curves(history: RatingHistory, stored: StoredLeague | None) -> dict[str, Any]:
    """The ratings of the learner and of the best others, by steps."""
    if history.players:
        names = sorted(history.players, key=lambda name: (name != LEARNER, *_order(history.players[name])))
        return {"steps": history.steps, "players": history.curves(names[:MOST_CURVES])}
    if stored is None:
        return {"steps": [], "players": []}
    # Only the learner's rating at each entry is known.
    known = [(member.step, member.entered) for member in stored.archive.members] + [(stored.step, stored.learner)]
    known.sort(key=lambda point: point[0])
    learner = {
        "name": LEARNER,
        "mu": [rating.mu for _, rating in known],
        "sigma": [rating.sigma for _, rating in known],
    }
    return {"steps": [step for step, _ in known], "players": [learner]}


def league_in_checkpoint(folder: Path) -> StoredLeague | None:
    """The league in a run's last checkpoint, if that is in the run's own folder and can be read."""
    run = RunDir(folder)
    try:
        if run.keeps_checkpoints_outside or (folder / "checkpoints").is_symlink():
            return None
        return stored_league(run)
    except (RookeryError, OSError):
        return None


def _order(row: dict[str, Any]) -> tuple[bool, float]:
    return row["kind"] == "retired", -row["rating"]


def _chances(rows: list[dict[str, Any]], config: dict[str, Any]) -> dict[str, float]:
    """How likely each player is the opponent of the next game against the archive; {} if none is played."""
    try:
        settings = LeagueOptions.model_validate(config.get("league") or {})
    except ValueError:
        return {}
    if "archive" not in str([config.get("opponents"), config.get("phases")]):
        return {}
    members = {
        row["name"]: row["win_rate"] if row["win_rate"] is not None else 0.5 for row in rows if row["kind"] == "member"
    }
    baselines = settings.baselines or [row["name"] for row in rows if row["name"] in SCRIPTED]
    return draw_chances(members, baselines, settings)


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
        return sorted(self.players.values(), key=_order)

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
