"""The league in a run's last checkpoint, to show it or to play a tournament."""

from __future__ import annotations

from dataclasses import dataclass

from rookery.console import printable
from rookery.errors import CheckpointError, RunError
from rookery.training.league.archive import FOLDER, Archive
from rookery.training.league.opponent_record import OpponentRecord, rating_from
from rookery.training.league.ratings import Rating
from rookery.training.storage.checkpoint import LARGEST_STATE, STATE, Checkpoints
from rookery.training.storage.checkpoint_files import MALFORMED, parse_json, read_contents, short_text
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.state_tree import Tree

PART = "course"  # of a checkpoint, in which the league is


@dataclass(frozen=True)
class StoredLeague:
    """A run's league as it was at `step`."""

    run: RunDir
    step: int
    learner: Rating
    archive: Archive
    met: dict[str, OpponentRecord]


def stored_league(run: RunDir) -> StoredLeague | None:
    """A run's league, read only; None if it has none, as no opponent was a policy."""
    checkpoints = Checkpoints(run.checkpoints)
    latest = checkpoints.latest()
    if latest is None:
        raise RunError(f"{run.name} has no checkpoint yet, which would hold its league")
    if PART not in parse_json(
        latest / STATE, read_contents(latest / STATE, LARGEST_STATE)
    ):  # written before there were leagues
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
    archive.restore_members(saved["members"])
    met = {printable(name): OpponentRecord.from_state(record) for name, record in saved["met"].items()}
    return StoredLeague(run, step, rating_from(saved["learner"]), archive, met)
