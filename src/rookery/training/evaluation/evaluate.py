"""Evaluate a trained agent, in its own world or one with the same spaces; or any agent in games."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import say
from rookery.engine.settings import positive_int
from rookery.errors import OptionError, OptionTypeError, RunError
from rookery.foreign_names import OF_AGENTS, explains_keywords
from rookery.gate import allow_given
from rookery.learners.agent import Agent
from rookery.training.evaluation.evaluator import DEFAULT_ENVS, Evaluator, OpponentGames
from rookery.training.evaluation.results import EvaluationResult, GamesResult
from rookery.training.evaluation.trained_run import AgentOrRun, TrainedRun, agent_in, open_run
from rookery.training.evaluation.win_record import interval_of
from rookery.training.players.agents import SCRIPTS, find_player, seated
from rookery.training.players.file_player import NAME as RANDOM
from rookery.training.resolve.option_errors import failure_options
from rookery.training.resolve.resolved_run import with_recorded_image_size, wrapped
from rookery.training.resolve.seats import all_opponents, seat_of
from rookery.training.resolve.session_world import session_world
from rookery.training.resolve.world_choice import World, find, num_agents, world_of_object
from rookery.training.storage.load_agent import holds_agent, load
from rookery.worlds import registry

UPDATE_SECONDS = 0.2  # between two changes of the line


@explains_keywords(OF_AGENTS, "it takes an agent or a run")
def evaluate(
    agent: AgentOrRun = "latest",
    runs_dir: str | Path = "runs",
    episodes: int = 100,
    seed: int | None = None,
    best: bool = True,
    deterministic: bool | None = None,
    world: Any = None,
    world_options: Mapping[str, Any] | None = None,
    progress: Callable[[str, int], None] = lambda opponent, done: None,
    trust: bool = False,
) -> EvaluationResult:
    """Play complete episodes with an agent; returns their mean return, its interval, and the return of each. In a world
    for two, these are games against random actions, as the returns of both sides may sum to 0.

    Args:
        agent: An agent, the result of `rookery.train`, a run by its name, its path or as "latest", or the folder that
            `agent.save` wrote.
        runs_dir: The folder of the runs.
        episodes: How many to play.
        seed: Of the env; if omitted, that of the run's own evaluations, so that results compare.
        best: Of a run, take the best agent by evaluation; False takes the last.
        deterministic: Take deterministic actions instead of sampled ones; if omitted, as in the run's own evaluations.
        world: Another world to play in, with the same spaces: its name, or an env, a class or a function. Agents
            without a run need it.
        world_options: Keyword arguments for the world, on top of those it was trained with if it is the same one:
            `evaluate("latest", world_options={"opponent": "strong"})`.
        progress: Called with "" (there is no opponent) and the number of finished episodes.
        trust: Run the world's code without a question, even if this user has not trained with it here.

    Example:
        >>> import rookery, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = rookery.train("CartPole-v1", steps=1_024, runs_dir=folder, verbose=False)
        ...     played = rookery.evaluate(result.agent, episodes=4)
        >>> len(played.returns), played.interval[0] <= played.mean <= played.interval[1]
        (4, True)
    """
    is_folder = isinstance(runs_dir, (str, Path)) and (str(runs_dir) == "runs" or Path(runs_dir).is_dir())
    if not is_folder and not isinstance(agent, (str, Path)):
        raise OptionTypeError("rookery.evaluate() takes the folder of the runs second; give the env as world=env")
    positive_int("episodes", episodes)
    allow_given([world, world_options])
    options = dict(world_options or {})
    player = agent
    if isinstance(agent, (str, Path)) and holds_agent(Path(agent)):
        agent = load(agent, trust=trust)
    if world is not None and isinstance(agent, Agent) and agent.run is None:
        trained = agent_in(agent, world, options)
        played_world = trained.world
    else:
        trained = open_run(agent, runs_dir, best, trust=trust)
        played_world = _world_to_play(trained, world, options)
    seed = trained.seed if seed is None else seed
    if deterministic is None:
        deterministic = trained.config.evaluation.deterministic
    if num_agents(played_world) == 2 or _acts_for_one_of_two(trained, played_world):
        games = {"games": episodes, "seed": seed, "best": best, "deterministic": deterministic, "trust": trust}
        where = {"world": world, "world_options": world_options, "progress": progress}
        return evaluate_games(player, (RANDOM,), runs_dir, **games, **where)  # type: ignore[arg-type]
    if world is not None or options:  # not exactly the world it was trained in: the agent must fit
        _check_spaces(trained.run.name, trained.agent, played_world)
    config, num_envs = trained.config, _num_envs(trained)
    backend = config.backend if world is None or isinstance(world, str) else "serial"
    made = Evaluator(
        played_world, backend, episodes, seed, deterministic, num_envs=num_envs, workers=config.workers,
        **failure_options(config),
    )  # fmt: skip
    with closing(made) as evaluator:
        played = evaluator.run(trained.agent, progress=lambda done: progress("", done))
    assert played is not None  # nobody asked it to stop
    if played.note:
        say(played.note)
    return EvaluationResult(
        run=trained.run.name,
        step=trained.step,
        world=played_world.name,
        returns=np.array(played.returns),
        lengths=np.array(played.lengths),
        interval=interval_of(played.returns),
        outcomes=dict(played.outcomes),
        restarts=played.restarts,
        seconds=played.seconds,
    )


def evaluate_games(
    agent: AgentOrRun,
    opponents: Sequence[str] = (),
    runs_dir: str | Path = "runs",
    games: int = 100,
    seed: int | None = None,
    best: bool = True,
    deterministic: bool = True,
    world: Any = None,
    world_options: Mapping[str, Any] | None = None,
    progress: Callable[[str, int], None] = lambda opponent, done: None,
    trust: bool = False,
) -> GamesResult:
    """Play two-player games, sides alternating, and return how many were won, drawn and lost
    against each opponent.

    Args:
        agent: An agent, or the result of `rookery.train`; a run by its name, its path or as "latest"; an agent that is
            installed with a world, unless there is a run of that name; the folder of a checkpoint; or `file.py:Agent`.
        opponents: As for `agent`, random (random actions), and none, weak and strong, the world's scripts; if omitted,
            weak and strong, or random in a world with two agents.
        games: How many to play against each.
        seed: Of the games; if omitted, that of the run's own evaluations, or else 0.
        best: Take the run's best agent by evaluation; False takes the last.
        deterministic: Agents take deterministic actions instead of sampled ones.
        world: Another world to play in than the one it was trained in, or the registry's default game.
        world_options: Keyword arguments for the world, on top of those it was trained with if it is the same one.
        progress: Called with the opponent's name and the number of finished games.
        trust: Run the code of the run's world without a question, even if this user has not trained with it here.
    """
    positive_int("games", games)
    allow_given([*([agent] if isinstance(agent, (str, Path)) else []), *opponents, world, world_options])
    trained = _trained(agent, Path(runs_dir), best, trust)
    options = dict(world_options or {})
    played_world = (
        find(world or registry.default_game().name, options=options)
        if trained is None
        else _world_to_play(trained, world, options)
    )
    backend = "serial" if trained is None else trained.config.backend
    if seed is None:
        seed = 0 if trained is None else trained.seed
    names = list(opponents) or ([RANDOM] if num_agents(played_world) == 2 else ["weak", "strong"])
    options = {"games": games, "num_envs": DEFAULT_ENVS if trained is None else _num_envs(trained)}
    options |= {} if trained is None else failure_options(trained.config)
    with closing(OpponentGames(played_world, backend, names, runs_dir, deterministic, **options)) as against:
        if trained is None:
            player = find_player(str(agent), against.seat, runs_dir, deterministic=deterministic)
        else:
            player = seated(trained.agent, trained.run.name, against.seat, deterministic=deterministic)
        started = time.perf_counter()
        results = against.play(player, games, seed, progress=progress)
        seconds, restarts = time.perf_counter() - started, against.restarts
    assert results is not None  # nobody asked it to stop
    rows = [{"opponent": name, **result.record().as_json()} for name, result in results.items()]
    returns = np.concatenate([result.returns[~np.isnan(result.returns)] for result in results.values()])
    return GamesResult(
        run=None if trained is None else trained.run.name,
        step=None if trained is None else trained.step,
        world=played_world.name,
        returns=returns,
        lengths=np.concatenate([result.lengths for result in results.values()]),
        interval=interval_of(returns.tolist()) if len(returns) else (math.nan, math.nan),
        outcomes={},
        restarts=restarts,
        seconds=seconds,
        agent=player.name,
        opponents=rows,
        seed=seed,
    )


def _trained(agent: AgentOrRun, runs_dir: Path, best: bool, trust: bool) -> TrainedRun | None:
    """The run of this name; None if it is not one."""
    if not isinstance(agent, (str, Path)):
        return open_run(agent, runs_dir, best, trust=trust)
    name = str(agent)
    if ".py:" in name or name in SCRIPTS or holds_agent(Path(name)):
        return None
    try:
        return open_run(agent, runs_dir, best, trust=trust)
    except RunError:
        if name in registry.agents():
            return None
        raise


def _num_envs(trained: TrainedRun) -> int:
    """How many envs the run trained on."""
    recorded = trained.config.num_envs
    return recorded if isinstance(recorded, int) else DEFAULT_ENVS


def _world_to_play(trained: TrainedRun, world: Any, options: dict[str, Any]) -> World:
    if world is None and not options:
        return trained.world
    config = with_recorded_image_size(trained.config)
    if world is None or config.wrappers:
        trained.check_code()
    if world is None:
        world, options = config.world, {**config.world_options, **options}
    if not isinstance(world, str):
        found = session_world(world)
        world, options = found.name, {**(found.options or {}), **options}
        if found.source is not None:
            return wrapped(config, world_of_object(found.source, world, options))
    return wrapped(config, find(world, config.takes_compiled, config.learner, options))


def _acts_for_one_of_two(trained: TrainedRun, played_world: World) -> bool:
    """Whether a run with opponents has trained its agent for one side of an env that takes both players' actions."""
    seat = seat_of(*played_world.spaces)
    mine, theirs = trained.agent.action_space, played_world.spaces[1]
    return bool(all_opponents(trained.config)) and mine != theirs and seat is not None and seat.action_space == mine


def _check_spaces(run: str, agent: Agent, played_world: World) -> None:
    seen, done = played_world.spaces
    for what, mine, theirs in (("observes", agent.observation_space, seen), ("acts in", agent.action_space, done)):
        if mine != theirs:
            raise OptionError(f"{run} cannot play {played_world.name}: its agent {what} {mine}, and that has {theirs}")


@contextmanager
def counting(total: int, what: str = "games") -> Iterator[Callable[[str, int], None]]:
    """A line on standard error that counts games or episodes, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda opponent, done: None
        return
    shown = 0.0

    def update(opponent: str, done: int) -> None:
        nonlocal shown
        if time.perf_counter() - shown > UPDATE_SECONDS:
            shown = time.perf_counter()
            against = f"against {opponent}: " if opponent else ""
            sys.stderr.write(f"\r\x1b[K{against}{done:,} of {total:,} {what}")
            sys.stderr.flush()

    try:
        yield update
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
