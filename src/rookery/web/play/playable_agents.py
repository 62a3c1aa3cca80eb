"""The agents that can be played in the page: runs with a checkpoint, and the agents that come with rookery."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rookery.errors import RookeryError
from rookery.training.storage.run_dir import RunDir
from rookery.web.run_folders import RunFolders
from rookery.worlds import registry
from rookery.worlds.world_spec import WorldSpec

MOST_RUNS = 1000  # the newest of them are listed


def playable_agents(folders: RunFolders) -> list[dict[str, Any]]:
    """One row for each agent: first those that come with rookery, then runs, the newest first."""
    return [*_shipped(), *_runs(folders)]


def _shipped() -> list[dict[str, Any]]:
    specs = {spec.name: spec for spec in registry.agents().values()}
    return [
        {
            "id": name, "kind": "shipped", "name": spec.agent.title if spec.agent else name, "world": name,
            "learner": None, "updated": None, **_game(spec),
        }
        for name, spec in specs.items()
    ]  # fmt: skip


def _runs(folders: RunFolders) -> list[dict[str, Any]]:
    found = sorted(((_changed(path), place, name, path) for place, name, path in folders.children()), reverse=True)
    rows = (_run_row(place, name, path, changed) for changed, place, name, path in found[:MOST_RUNS])
    return [row for row in rows if row is not None]


def _run_row(place: str, name: str, path: Path, changed: float) -> dict[str, Any] | None:
    """The row of a run; None for a folder that is none, or has no checkpoint, or disappears meanwhile."""
    try:
        run = RunDir(path)
        config = run.read_config()
        if not any(name.startswith("step-") for name in os.listdir(run.checkpoints)):
            return None
    except (OSError, ValueError, RookeryError):
        return None
    world, learner = (config.get(key) if isinstance(config.get(key), str) else None for key in ("world", "learner"))
    return {
        "id": f"{place}/{name}", "kind": "run", "name": name, "world": world, "learner": learner, "updated": changed,
        **_game(_spec_of(world)),
    }  # fmt: skip


def _game(spec: WorldSpec | None) -> dict[str, Any]:
    """The game for two that the world is, if it is one: its agents play against each other. And whether a person can
    play it in the page."""
    if spec is None or spec.two_player is None:
        return {"game": None, "against": False}
    return {"game": spec.name, "against": spec.game is not None}


def _spec_of(world: str | None) -> WorldSpec | None:
    specs = (spec for spec in registry.specs() if world in (spec.name, spec.source, *spec.kernels))
    return next(specs, None)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
