"""How good an agent is: that of a finished run, in its own world or in another like it; or any against others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from rookery.engine.settings import positive_int
from rookery.errors import OptionError, RunError
from rookery.learners.agent import Agent
from rookery.training.evaluation.against import Against
from rookery.training.evaluation.evaluator import Evaluator
from rookery.training.evaluation.trained_run import TrainedRun, open_run
from rookery.training.players.agents import SCRIPTS, find_player, seated
from rookery.training.resolve.world_choice import World, find
from rookery.training.storage.checkpoint_files import MANIFEST
from rookery.worlds import registry


def evaluate_run(
    run: str | Path,
    runs_dir: str | Path = "runs",
    episodes: int = 100,
    seed: int | None = None,
    best: bool = False,
    deterministic: bool | None = None,
    world: str | None = None,
    world_options: Mapping[str, Any] | None = None,
    progress: Callable[[str, int], None] = lambda opponent, done: None,
    trust: bool = False,
) -> dict[str, Any]:
    """Play whole episodes with a run's agent, and return the figures.

    Args:
        run: Its name in `runs_dir`, its path, or "latest".
        episodes: How many to play.
        seed: Of the env; left out, that of the run's own evaluations, so that figures compare.
        best: Take the best checkpoint, not the latest.
        deterministic: Take the likeliest actions rather than drawn ones; left out, as in the run's own evaluations.
        world: Another world to play in, which must have the same spaces.
        world_options: Keyword arguments for the world, on top of those it was trained with if it is the same one:
            `evaluate_run("latest", world_options={"opponent": "strong"})`.
        progress: Called with "" (there is no opponent) and how many episodes there have been.
        trust: Run the world's code without a question, even if it was not trained with here.
    """
    positive_int("episodes", episodes)
    trained = open_run(run, runs_dir, best, trust=trust)
    place = _place(trained, world, dict(world_options or {}))
    if world or world_options:  # not exactly where it was trained: the agent must fit there
        _check_spaces(trained.run.name, trained.agent, place)
    seed = trained.seed if seed is None else seed
    if deterministic is None:
        deterministic = trained.config.evaluation.deterministic
    with closing(Evaluator(place, trained.config.backend, episodes, seed, deterministic)) as evaluator:
        played = evaluator.run(trained.agent, progress=lambda done: progress("", done))
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


def evaluate_games(
    agent: str,
    opponents: Sequence[str] = (),
    runs_dir: str | Path = "runs",
    games: int = 100,
    seed: int | None = None,
    best: bool = False,
    deterministic: bool = True,
    world: str | None = None,
    world_options: Mapping[str, Any] | None = None,
    progress: Callable[[str, int], None] = lambda opponent, done: None,
    trust: bool = False,
) -> dict[str, Any]:
    """Play games for two on a single env, sides alternating, and return the figures: of one opponent, or a list of them
    under "opponents".

    Args:
        agent: A run by its name, its path or as "latest"; an agent that is installed with a world, unless
            there is a run of that name; the folder of a checkpoint; or `file.py:Agent`.
        opponents: As for `agent`, and none, weak and strong, the world's scripts; left out, weak and strong.
        games: How many to play against each.
        seed: Of the games; left out, that of the run's own evaluations, or else 0.
        best: Take the run's best checkpoint, not the latest.
        deterministic: Agents take their likeliest actions rather than drawn ones.
        world: Another world to play in than the one it was trained in, or the registry's default game.
        world_options: Keyword arguments for the world, on top of those it was trained with if it is the same one.
        progress: Called with the opponent's name and how many games there have been.
        trust: Run the code of the run's world without a question, even if it was not trained with here.
    """
    positive_int("games", games)
    trained = _trained(agent, Path(runs_dir), best, trust)
    options = dict(world_options or {})
    place = (
        find(world or registry.default_game().name, options=options)
        if trained is None
        else _place(trained, world, options)
    )
    backend = "serial" if trained is None else trained.config.backend
    if seed is None:
        seed = 0 if trained is None else trained.seed
    names = list(opponents) or ["weak", "strong"]
    with closing(Against(place, backend, names, runs_dir, deterministic)) as against:
        if trained is None:
            player = find_player(agent, against.seat, runs_dir, deterministic=deterministic)
        else:
            player = seated(trained.agent, trained.run.name, against.seat, deterministic=deterministic)
        started = time.perf_counter()
        results = against.play(player, games, seed, progress=progress)
        seconds = time.perf_counter() - started
    assert results is not None  # nobody asked it to stop
    rows = [{"opponent": name, **result.record().as_json()} for name, result in results.items()]
    return {
        "agent": player.name,
        **({} if trained is None else {"run": trained.run.name, "step": trained.step}),
        "world": place.name,
        **(rows[0] if len(rows) == 1 else {"opponents": rows}),
        "seed": seed,
        "seconds": seconds,
    }


def _trained(agent: str, runs_dir: Path, best: bool, trust: bool) -> TrainedRun | None:
    """The run that is meant; None if it is no run."""
    if ".py:" in agent or agent in SCRIPTS or (Path(agent) / MANIFEST).is_file():
        return None
    try:
        return open_run(agent, runs_dir, best, trust=trust)
    except RunError:
        if agent in registry.agents():
            return None
        raise


def _place(trained: TrainedRun, world: str | None, options: dict[str, Any]) -> World:
    """Where to play."""
    if world is None and not options:
        return trained.world
    config = trained.config
    if world is None:
        trained.check_code()
        world, options = config.world, {**config.world_options, **options}
    return find(world, config.takes_twin, config.learner, options)


def _check_spaces(run: str, agent: Agent, place: World) -> None:
    seen, done = place.spaces
    for what, mine, theirs in (("observes", agent.observation_space, seen), ("acts in", agent.action_space, done)):
        if mine != theirs:
            raise OptionError(f"{run} cannot play {place.name}: its agent {what} {mine}, and that has {theirs}")
