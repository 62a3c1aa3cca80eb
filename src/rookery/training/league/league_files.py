"""The league as a run's last checkpoint holds it: to be looked at, and to play on with."""

from __future__ import annotations

from dataclasses import dataclass

from rookery.console import printable
from rookery.errors import CheckpointError, RunError
from rookery.training.league.archive import FOLDER, Archive
from rookery.training.league.ratings import Rating
from rookery.training.league.standing import Standing, rating_from
from rookery.training.storage.checkpoint import LARGEST_STATE, STATE, Checkpoints
from rookery.training.storage.checkpoint_files import MALFORMED, contents, parsed, short_text
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.state_tree import Tree

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
    if PART not in parsed(latest / STATE, contents(latest / STATE, LARGEST_STATE)):  # written before there were leagues
        return None
    step, tree = checkpoints.load_latest(only=(PART,))
    try:
        saved = tree[PART].get("league")
        return None if saved is None else _read(run, step, saved)
    except CheckpointError:
        raise
    except MALFORMED as error:
        raise CheckpointError(f"the league of {run.name} cannot be read: {short_text(error)}") from error


def _read(run: RunDir, step: int, saved: Tree) -> StoredLeague:
    archive = Archive(run.path / FOLDER, size=max(1, len(saved["members"])))
    archive.look_up(saved["members"])
    met = {printable(name): Standing.from_state(standing) for name, standing in saved["met"].items()}
    return StoredLeague(run, step, rating_from(saved["learner"]), archive, met)
