"""Evaluate the agent of a finished run, in its own world or one with the same spaces; or any agent in games."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rookery.config import RunConfig, build_config
from rookery.console import say
from rookery.engine.settings import positive_int
from rookery.errors import OptionError, RunError
from rookery.gate import allow_given
from rookery.learners.agent import Agent
from rookery.training.evaluation.evaluator import DEFAULT_ENVS, Evaluator, OpponentGames
from rookery.training.evaluation.win_record import interval_of
from rookery.training.players.agents import SCRIPTS, find_player, seated
from rookery.training.players.file_player import NAME as RANDOM
from rookery.training.resolve.option_errors import failure_options
from rookery.training.resolve.resolved_run import (
    ResolvedRun,
    evaluation_seed,
    resolve_recorded_run,
    with_recorded_image_size,
    wrapped,
)
from rookery.training.resolve.world_choice import World, find, num_agents
from rookery.training.storage.checkpoint_files import MANIFEST
from rookery.training.storage.load_agent import agent_from, load_checkpoint
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.trust import check_run
from rookery.worlds import registry


def evaluate_run(
    run: str | Path,
    runs_dir: str | Path = "runs",
    episodes: int = 100,
    seed: int | None = None,
    best: bool = True,
    deterministic: bool | None = None,
    world: str | None = None,
    world_options: Mapping[str, Any] | None = None,
    progress: Callable[[str, int], None] = lambda opponent, done: None,
    trust: bool = False,
) -> dict[str, Any]:
    """Play complete episodes with a run's agent, and return the results. In a world with two agents, these are games
    against random actions, as the returns of both sides may sum to 0.

    Args:
        run: Its name in `runs_dir`, its path, or "latest".
        episodes: How many to play.
        seed: Of the env; if omitted, that of the run's own evaluations, so that results compare.
        best: Take the best agent by evaluation; False takes the last.
        deterministic: Take deterministic actions instead of sampled ones; if omitted, as in the run's own evaluations.
        world: Another world to play in, which must have the same spaces.
        world_options: Keyword arguments for the world, on top of those it was trained with if it is the same one:
            `evaluate_run("latest", world_options={"opponent": "strong"})`.
        progress: Called with "" (there is no opponent) and the number of finished episodes.
        trust: Run the world's code without a question, even if this user has not trained with it here.
    """
    positive_int("episodes", episodes)
    allow_given([world, world_options])
    trained = open_run(run, runs_dir, best, trust=trust)
    played_world = _world_to_play(trained, world, dict(world_options or {}))
    if world or world_options:  # not exactly the world it was trained in: the agent must fit
        _check_spaces(trained.run.name, trained.agent, played_world)
    seed = trained.seed if seed is None else seed
    if deterministic is None:
        deterministic = trained.config.evaluation.deterministic
    if num_agents(played_world) == 2:
        games = {"games": episodes, "seed": seed, "best": best, "deterministic": deterministic, "trust": trust}
        where = {"world": world, "world_options": world_options, "progress": progress}
        return evaluate_games(str(run), (RANDOM,), runs_dir, **games, **where)  # type: ignore[arg-type]
    config, num_envs = trained.config, _num_envs(trained)
    made = Evaluator(
        played_world, config.backend, episodes, seed, deterministic, num_envs=num_envs, workers=config.workers,
        **failure_options(config),
    )  # fmt: skip
    with closing(made) as evaluator:
        played = evaluator.run(trained.agent, progress=lambda done: progress("", done))
    assert played is not None  # nobody asked it to stop
    if played.note:
        say(played.note)
    returns = np.array(played.returns)
    low, high = interval_of(played.returns)
    return {
        "run": trained.run.name,
        "step": trained.step,
        "world": played_world.name,
        "episodes": len(returns),
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std()),
        "return_low": low,
        "return_high": high,
        "return_min": float(returns.min()),
        "return_max": float(returns.max()),
        "length_mean": float(np.mean(played.lengths)),
        **played.outcomes,
        **({"restarts": played.restarts} if played.restarts else {}),
        "seconds": played.seconds,
    }


def evaluate_games(
    agent: str,
    opponents: Sequence[str] = (),
    runs_dir: str | Path = "runs",
    games: int = 100,
    seed: int | None = None,
    best: bool = True,
    deterministic: bool = True,
    world: str | None = None,
    world_options: Mapping[str, Any] | None = None,
    progress: Callable[[str, int], None] = lambda opponent, done: None,
    trust: bool = False,
) -> dict[str, Any]:
    """Play two-player games, sides alternating, and return the results: of one opponent, or a list of
    them under "opponents".

    Args:
        agent: A run by its name, its path or as "latest"; an agent that is installed with a world, unless
            there is a run of that name; the folder of a checkpoint; or `file.py:Agent`.
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
    allow_given([agent, *opponents, world, world_options])
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
            player = find_player(agent, against.seat, runs_dir, deterministic=deterministic)
        else:
            player = seated(trained.agent, trained.run.name, against.seat, deterministic=deterministic)
        started = time.perf_counter()
        results = against.play(player, games, seed, progress=progress)
        seconds, restarts = time.perf_counter() - started, against.restarts
    assert results is not None  # nobody asked it to stop
    rows = [{"opponent": name, **result.record().as_json()} for name, result in results.items()]
    return {
        "agent": player.name,
        **({} if trained is None else {"run": trained.run.name, "step": trained.step}),
        "world": played_world.name,
        **(rows[0] if len(rows) == 1 else {"opponents": rows}),
        "seed": seed,
        **({"restarts": restarts} if restarts else {}),
        "seconds": seconds,
    }


def _trained(agent: str, runs_dir: Path, best: bool, trust: bool) -> TrainedRun | None:
    """The run of this name; None if it is no run."""
    if ".py:" in agent or agent in SCRIPTS or (Path(agent) / MANIFEST).is_file():
        return None
    try:
        return open_run(agent, runs_dir, best, trust=trust)
    except RunError:
        if agent in registry.agents():
            return None
        raise


def _num_envs(trained: TrainedRun) -> int:
    """How many envs the run trained on."""
    recorded = trained.config.num_envs
    return recorded if isinstance(recorded, int) else DEFAULT_ENVS


def _world_to_play(trained: TrainedRun, world: str | None, options: dict[str, Any]) -> World:
    """The world to play in."""
    if world is None and not options:
        return trained.world
    config = with_recorded_image_size(trained.config)
    if world is None or config.wrappers:
        trained.check_code()
    if world is None:
        world, options = config.world, {**config.world_options, **options}
    return wrapped(config, find(world, config.takes_compiled, config.learner, options))


def _check_spaces(run: str, agent: Agent, played_world: World) -> None:
    seen, done = played_world.spaces
    for what, mine, theirs in (("observes", agent.observation_space, seen), ("acts in", agent.action_space, done)):
        if mine != theirs:
            raise OptionError(f"{run} cannot play {played_world.name}: its agent {what} {mine}, and that has {theirs}")


HEADINGS = ("against", "games", "won (95 % CI)", "drawn", "lost (95 % CI)", "length", "return")
UPDATE_SECONDS = 0.2  # between two changes of the line


def print_games(results: dict[str, Any]) -> None:
    """A table of what `evaluate_games` returned, a row for each opponent. Lines are never cut: names can be copied."""
    step = f" at step {results['step']:,}" if "step" in results else ""
    print(f"{results['agent']}{step}, seed {results['seed']}, {results['seconds']:.1f} s")
    rows = [HEADINGS, *(_row(row) for row in results.get("opponents", [results]))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        print(first.ljust(widths[0]), *cells, sep="  ")


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["opponent"],
        f"{row['games']:,}",
        _share(row["win_rate"], row["win_rate_interval"]),
        f"{100 * row['draw_rate']:.1f} %",
        _share(row["loss_rate"], row["loss_rate_interval"]),
        f"{row['length_mean']:.0f}",
        f"{row['return_mean']:.2f}",
    )


def _share(share: float, interval: list[float]) -> str:
    """
    >>> _share(0.872, [0.8499, 0.891])
    '87.2 % (85.0 to 89.1)'
    """
    return f"{100 * share:.1f} % ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})"


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


@dataclass(frozen=True)
class TrainedRun:
    """A run's agent as it was at `step`. `saved` holds the parts of the checkpoint that were read."""

    run: RunDir
    config: RunConfig
    step: int
    agent: Agent
    saved: dict[str, Any]
    trust: bool = False

    @cached_property
    def resolved(self) -> ResolvedRun:
        """The run as it was trained. This imports the world's code, if it is in a file."""
        self.check_code()
        return resolve_recorded_run(self.config)

    @property
    def world(self) -> World:
        """The world it was trained in."""
        return self.resolved.world

    def check_code(self) -> None:
        """Ask the user before the world's code is imported, unless this user trained with it here."""
        check_run(self.run, self.config, self.trust, playing=True)

    @property
    def seed(self) -> int:
        """The seed of the run's own evaluations."""
        return evaluation_seed(self.config)


def open_run(
    run: str | Path, runs_dir: str | Path, best: bool = True, parts: tuple[str, ...] = ("agent",), trust: bool = False
) -> TrainedRun:
    """Read a run that the user names: by its name, its path or as "latest", at its best checkpoint or at its last.
    `trust` lets its world's code run without a question."""
    allow_given(run)
    found = RunDir.find(run, Path(runs_dir))
    config = build_config(found.read_config())
    step, saved = load_checkpoint(found, best, parts, trust)
    agent = agent_from(saved["agent"])
    agent.deterministic = config.evaluation.deterministic
    return TrainedRun(found, config, step, agent, saved, trust)
