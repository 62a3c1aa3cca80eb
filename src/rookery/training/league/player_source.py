"""Where the players of a tournament come from, so that their games can be played again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rookery.errors import CheckpointError, RookeryError
from rookery.training.players import random_player
from rookery.training.resolve.seats import SCRIPTS
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.checkpoint_files import MANIFEST, read_manifest
from rookery.training.storage.run_dir import RunDir
from rookery.worlds import registry

WEIGHTS = "agent.safetensors"
IN_RUN = re.compile(r"(league|checkpoints)/(step-[0-9]{1,18}(?:-[0-9]{1,9})?)")  # where an agent is in a run's folder


@dataclass(frozen=True)
class PlayerSource:
    """A player: "script:NAME", "shipped:NAME", "random", or a place in the folder of a run with the hash of the
    weights; None if it cannot be found again, as a Python file may change."""

    source: str | None = None
    run: str | None = None
    sha256: str | None = None


def source_in_run(run: RunDir, folder: Path) -> PlayerSource:
    """The agent in a folder of a run's league, or of its checkpoints."""
    return PlayerSource(
        f"{'league' if folder.parent.name == 'league' else 'checkpoints'}/{folder.name}", run.name, weights_hash(folder)
    )


def source_of(who: str, runs_dir: Path) -> PlayerSource:
    """The player that `find_player` finds by this name."""
    if who.lower() in SCRIPTS:
        return PlayerSource(f"script:{SCRIPTS[who.lower()]}")
    if who == random_player.NAME:
        return PlayerSource(random_player.NAME)
    if who in registry.agents():
        return PlayerSource(f"shipped:{registry.agents()[who].name}")
    if ".py:" in who:
        return PlayerSource()
    folder = Path(who).absolute()
    try:
        if (folder / MANIFEST).is_file():
            known = IN_RUN.fullmatch(f"{folder.parent.name}/{folder.name}")
            return source_in_run(RunDir(folder.parent.parent), folder) if known else PlayerSource()
        run = RunDir.find(who, runs_dir)
        latest = Checkpoints(run.checkpoints).latest()
    except RookeryError:
        return PlayerSource()
    return PlayerSource() if latest is None else source_in_run(run, latest)


def weights_hash(folder: Path) -> str | None:
    """The hash of the agent's weights, as the folder's manifest has it; None if it has none."""
    try:
        found = read_manifest(folder)["files"][WEIGHTS]["sha256"]
    except (CheckpointError, OSError, LookupError, TypeError):
        return None
    return found if isinstance(found, str) else None
