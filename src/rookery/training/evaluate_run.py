"""How good the agent of a finished run is, in its own world or in another like it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from rookery.engine.settings import positive_int
from rookery.errors import OptionError
from rookery.learners.agent import Agent
from rookery.training.evaluate import Evaluator
from rookery.training.trained import Trained, open_run
from rookery.training.world import World, find, spaces


def evaluate_run(
    run: str | Path,
    runs_dir: str | Path = "runs",
    episodes: int = 100,
    seed: int | None = None,
    best: bool = False,
    deterministic: bool = True,
    world: str | None = None,
    world_options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Play whole episodes with a run's agent, and return the figures.

    Args:
        run: Its name in `runs_dir`, its path, or "latest".
        episodes: How many to play.
        seed: Of the env; left out, that of the run's own evaluations, so that figures compare.
        best: Take the best checkpoint, not the latest.
        deterministic: Take the likeliest actions rather than drawn ones.
        world: Another world to play in, which must have the same spaces.
        world_options: Keyword arguments for the world, on top of those it was trained with if it is the same one:
            `evaluate_run("latest", world_options={"opponent": "strong"})`.
    """
    positive_int("episodes", episodes)
    trained = open_run(run, runs_dir, best)
    place = _place(trained, world, dict(world_options or {}))
    seed = trained.seed if seed is None else seed
    with closing(Evaluator(place, trained.config.backend, episodes, seed, deterministic)) as evaluator:
        played = evaluator.run(trained.agent)
    assert played is not None  # nobody asked it to stop
    returns = np.array(played.returns[:episodes])
    return {
        "run": trained.run.name,
        "step": trained.step,
        "world": place.name,
        "episodes": len(returns),
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std()),
        "return_min": float(returns.min()),
        "return_max": float(returns.max()),
        "length_mean": float(np.mean(played.lengths[:episodes])),
        **played.outcomes,
        "seconds": played.seconds,
    }


def _place(trained: Trained, world: str | None, options: dict[str, Any]) -> World:
    """Where to play. If that is not exactly where it was trained, the agent must fit there."""
    if world is None and not options:
        return trained.world
    config = trained.config
    if world is None:
        world, options = config.world, {**config.world_options, **options}
    place = find(world, config.takes_twin, config.learner, options)
    _check_spaces(trained.run.name, trained.agent, place)
    return place


def _check_spaces(run: str, agent: Agent, place: World) -> None:
    seen, done = spaces(place)
    for what, mine, theirs in (("observes", agent.observation_space, seen), ("acts in", agent.action_space, done)):
        if mine != theirs:
            raise OptionError(f"{run} cannot play {place.name}: its agent {what} {mine}, and that has {theirs}")
