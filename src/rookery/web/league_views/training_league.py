"""The league of a training run: its players, who is drawn next, and their ratings over the steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.config.curriculum_schema import LeagueOptions
from rookery.errors import RookeryError
from rookery.training.league.league_files import StoredLeague, stored_league
from rookery.training.league.league_rows import LEARNER
from rookery.training.league.league_table import stored_rows
from rookery.training.league.matchmaking import draw_chances
from rookery.training.storage.run_dir import RunDir
from rookery.web.league_views.rating_history import RatingHistory

MOST_LISTED = 500
MOST_CURVES = 24
SCRIPTED = ("weak", "strong")


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
    members = {row["name"]: row["win_rate"] if row["win_rate"] is not None else 0.5 for row in rows if _is_member(row)}
    baselines = settings.baselines or [row["name"] for row in rows if row["name"] in SCRIPTED]
    return draw_chances(members, baselines, settings)


def _is_member(row: dict[str, Any]) -> bool:
    return bool(row["kind"] == "member")
