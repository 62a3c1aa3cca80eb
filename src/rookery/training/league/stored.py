"""The league as a run's last checkpoint holds it: to be looked at, and to play on with."""

from __future__ import annotations

from dataclasses import dataclass

from rookery.errors import RunError
from rookery.training.checkpoint import STATE, Checkpoints
from rookery.training.league.archive import FOLDER, Archive
from rookery.training.league.ratings import Rating
from rookery.training.league.standing import Standing
from rookery.training.rundir import RunDir
from rookery.training.sealed import parsed

PART = "course"  # of a checkpoint, in which the league is


@dataclass(frozen=True)
class StoredLeague:
    """What a run's league was at `step`."""

    run: RunDir
    step: int
    learner: Rating
    archive: Archive
    met: dict[str, Standing]


def stored_league(run: RunDir) -> StoredLeague | None:
    """A run's league; None if it has none, having met no policies. Nothing is changed by looking."""
    checkpoints = Checkpoints(run.checkpoints)
    latest = checkpoints.latest()
    if latest is None:
        raise RunError(f"{run.name} has no checkpoint yet, and its league is kept with those")
    if PART not in parsed(latest / STATE, (latest / STATE).read_bytes()):  # written before there were leagues
        return None
    step, tree = checkpoints.load_latest(only=(PART,))
    saved = tree[PART].get("league")
    if saved is None:
        return None
    archive = Archive(run.path / FOLDER, size=max(1, len(saved["members"])))
    archive.look_up(saved["members"])
    met = {name: Standing.from_state(standing) for name, standing in saved["met"].items()}
    return StoredLeague(run, step, Rating(**saved["learner"]), archive, met)
