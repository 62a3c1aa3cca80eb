"""`rookery watch`: show a trained agent, in a video file or in a window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import say
from rookery.engine.settings import positive_int
from rookery.errors import OptionError
from rookery.files import own_folder
from rookery.foreign_names import OF_AGENTS, OF_FILES, explains_keywords
from rookery.gate import allow_given
from rookery.learners.agent import Agent
from rookery.training.evaluation.trained_run import AgentOrRun, TrainedRun, agent_in, open_run
from rookery.training.resolve.world_choice import World, find
from rookery.training.show.episode import (
    HOLD_SECONDS,
    Matchup,
    PlayLimits,
    ShownAgent,
    make_matchup,
    needs_opponent,
    outcome,
    usual_opponent,
)
from rookery.training.show.grid import MAX_ENVS, default_env_count, play_grid, show_in_window
from rookery.training.show.rendered_env import RenderedEnv, check_display, open_rendered, open_rendered_envs
from rookery.training.show.video import frame_stride, video_path, write_video
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_record import RunRecord
from rookery.training.storage.shipped_agents import shipped_agent, shipped_world


@dataclass(frozen=True)
class ShowSetup:
    """What is shown: an agent in a world, against an opponent if that is a two-player game."""

    world: World
    agent: Agent
    seed: int
    name: str = "agent"
    opponent: str | None = None  # if none is named: None for the world as it is
    matchup: Matchup | None = None


@explains_keywords(OF_AGENTS | OF_FILES, "help(rookery.record) lists them")
def record(
    agent: AgentOrRun = "latest",
    out: str | Path | None = None,
    *,
    runs_dir: str | Path = "runs",
    episodes: int | None = None,
    fps: float | None = None,
    best: bool | None = None,
    seed: int | None = None,
    opponent: str | None = None,
    grid: int | bool = False,
    world: Any = None,
    trust: bool = False,
) -> Path:
    """Record a video of an agent: .mp4, .gif or .webp. Returns its path. The arguments are those of `watch`."""
    path = watch(agent, runs_dir, episodes, out, False, fps, best, seed, opponent, grid, trust, world)
    assert path is not None  # it is not live
    return path


@explains_keywords(OF_AGENTS | OF_FILES, "help(rookery.watch) lists them")
def watch(
    run: AgentOrRun | None,
    runs_dir: str | Path = "runs",
    episodes: int | None = None,
    out: str | Path | None = None,
    live: bool = False,
    fps: float | None = None,
    best: bool | None = None,
    seed: int | None = None,
    opponent: str | None = None,
    grid: int | bool = False,
    trust: bool = False,
    world: Any = None,
) -> Path | None:
    """Show an agent playing: in a video, or with `live=True` in a window. Returns the path of the video; None for a
    window.

    Args:
        run: An agent, the result of `rookery.train`, or a run by its name, its path or as "latest"; the name of an
            agent that is installed with a world, unless there is a run of that name; None for the default game's.
        runs_dir: The folder of the runs.
        episodes: How many episodes; if omitted, up to 5, until 10 seconds have been shown.
        out: The video's file, as .mp4, .gif or .webp; if omitted, `videos/step-N.mp4` in the run's folder, or
            `step-N-grid.mp4`.
        live: Open a window instead of writing a video.
        fps: Steps of the env per second; if omitted, the world's own number.
        best: True takes the best agent by evaluation, and False the last; if omitted, the best, or the newest of a run
            that is still training.
        seed: The env's seed; if omitted, that of the run's own evaluations, whose first episodes are shown.
        opponent: The opponent in a two-player game: weak, strong, none, "agent" (the one that comes with rookery), a
            run, a checkpoint's folder, or `file.py:Agent`; if omitted, as in training, or the game's usual opponent.
        grid: Show this many envs at once, each with `episodes` of its own; True for as many as the run trained on, up
            to 16.
        trust: Run the world's code without a question, even if it was not trained with here.
        world: The world of an agent that is not of a run: its name, or a class or a function.
    """
    allow_given([run if isinstance(run, (str, Path)) else None, opponent])
    if episodes is not None:
        positive_int("episodes", episodes)
    if fps is not None and not (isinstance(fps, (int, float)) and fps > 0):
        raise OptionError(f"fps should be above 0, got {fps!r:.80}")
    if out is not None and live:
        raise OptionError("give `out` for a file or `live` for a window, not both")
    _check_grid(grid)
    setup, trained = show_setup(run, runs_dir, best, seed, trust, world)
    if opponent is not None:
        setup = replace(setup, opponent=opponent)
    path = Path(out) if out is not None else _default_path(setup, trained, bool(grid), live)
    if grid:
        count = grid if grid is not True else default_env_count(trained and trained.config.num_envs)
        # Each env has an opponent of its own, as an opponent may have a memory of its game.
        setups = [with_opponent(setup, runs_dir) for _ in range(count)]
        return _show_grid(setups, PlayLimits.for_episodes(episodes), fps, None if live else path)
    setup = with_opponent(setup, runs_dir)
    if live:
        _show_live(setup, episodes, fps)
        return None
    return _write_video(setup, path, episodes, fps)


def _check_grid(grid: int | bool) -> None:
    if not isinstance(grid, bool) and not 1 <= grid <= MAX_ENVS:
        raise OptionError(f"grid should be a number of envs from 1 to {MAX_ENVS}, got {grid}")


def show_setup(
    run: AgentOrRun | None, runs_dir: str | Path, best: bool | None, seed: int | None, trust: bool, world: Any = None
) -> tuple[ShowSetup, TrainedRun | None]:
    """What to show of a run, and the run; or of an agent that is installed with a world."""
    named = run is None or isinstance(run, (str, Path))
    shipped = shipped_world(run, runs_dir) if named else None  # type: ignore[arg-type]
    if shipped is not None:
        game = find(shipped.name)
        return ShowSetup(game, shipped_agent(shipped.name), seed or 0, shipped.name, usual_opponent(game)), None
    assert run is not None  # or it would be an installed agent
    if world is not None and isinstance(run, Agent):
        trained = agent_in(run, world, {})
    else:
        if best is None:
            best = not named or RunRecord(RunDir.find(run, Path(runs_dir))).state() != "running"  # type: ignore[arg-type]
        trained = open_run(run, runs_dir, best, trust=trust)
    config, world = trained.config, trained.world
    # A run with several opponents has no single one to show.
    many = config.opponents or any(phase.opponents for phase in config.phases)
    opponent = usual_opponent(world) if many else None
    seed = trained.seed if seed is None else seed
    return ShowSetup(world, trained.agent, seed, trained.run.name, opponent), trained


def _default_path(setup: ShowSetup, trained: TrainedRun | None, grid: bool, live: bool) -> Path:
    suffix = "-grid.mp4" if grid else ".mp4"
    if trained is None:
        return Path(f"{setup.name}{suffix}")
    folder = trained.run.videos if live else own_folder(trained.run.videos)
    return folder / f"step-{trained.step}{suffix}"


def record_end(
    world: World, agent: Agent, out: Path, seed: int, episodes: int | None = None, fps: float | None = None
) -> Path | None:
    """A video at the end of a run. If it cannot be made, one line says why, and None is returned."""
    try:
        path = _write_video(with_opponent(ShowSetup(world, agent, seed)), out, episodes, fps)
    except Exception as error:  # noqa: BLE001 - whatever fails, the run itself was successful
        say(f"no video was recorded: {' '.join(str(error).split()) or type(error).__name__}")
        return None
    say(f"a video of the agent is in {path}")
    return path


def with_opponent(setup: ShowSetup, runs_dir: str | Path = "runs") -> ShowSetup:
    """The same with the opponent looked up; unchanged if none is named and the agent can play without one."""
    who = setup.opponent
    if who is None and not needs_opponent(setup.world, setup.agent):
        return setup
    who = who or usual_opponent(setup.world)
    world, matchup = make_matchup(setup.world, setup.agent, setup.name, who, runs_dir)
    return replace(setup, world=world, matchup=matchup)


def _write_video(setup: ShowSetup, out: Path, episodes: int | None, fps: float | None) -> Path:
    path = video_path(out)
    with open_rendered(setup.world, fps=fps, matchup=setup.matchup) as rendered:
        every = frame_stride(path, rendered.fps)
        frames = play(rendered, setup.agent, setup.seed, PlayLimits.for_episodes(episodes), every)
        write_video(path, (frame for frame in frames if frame is not None), rendered.fps / every)
    return path


def _show_live(setup: ShowSetup, episodes: int | None, fps: float | None) -> None:
    with open_rendered(setup.world, live=True, fps=fps, matchup=setup.matchup) as rendered:
        for _ in play(rendered, setup.agent, setup.seed, PlayLimits.for_episodes(episodes)):
            if rendered.closed:
                return


def _show_grid(setups: Sequence[ShowSetup], limits: PlayLimits, fps: float | None, out: Path | None) -> Path | None:
    """Many envs at once: in a video, or in a window if `out` is None."""
    path = None if out is None else video_path(out)
    if path is None:
        check_display()
    first = setups[0]
    with open_rendered_envs(first.world, [setup.matchup for setup in setups], fps=fps) as rendered:
        rate = rendered[0].fps
        every = 1 if path is None else frame_stride(path, rate)
        frames = play_grid(rendered, first.agent, first.seed, limits, every)
        if path is None:
            show_in_window(frames, rate, f"{first.name} ({len(setups)} envs)")
        else:
            write_video(path, frames, rate / every)
    return path


def play(
    rendered: RenderedEnv, agent: Agent, seed: int, limits: PlayLimits, every: int = 1
) -> Iterator[np.ndarray | None]:
    """Play episodes, and yield the frame after every `every` steps and at the end of each episode."""
    shown = ShownAgent(agent, seed)
    observation, info = rendered.env.reset(seed=shown.begin(0, 0), options=None)
    total_steps = steps = episode = 0
    episode_return = 0.0
    while True:
        if steps % every == 0:
            yield rendered.frame()
        (action,) = shown.act([0], [observation], [info])
        observation, reward, terminated, truncated, info = rendered.env.step(action)
        episode_return, steps, total_steps = episode_return + float(reward), steps + 1, total_steps + 1
        seconds = total_steps / rendered.fps
        if terminated or truncated:
            episode += 1
            ended = outcome(info)
            say(f"episode {episode}: return {episode_return:,.4g}, {steps:,} steps{f', {ended}' if ended else ''}")
            yield from _last_frames(rendered, info, every)
            if episode >= limits.episodes or seconds >= limits.enough_seconds:
                return
            observation, info = rendered.env.reset(seed=shown.begin(0, episode), options=None)
            episode_return, steps = 0.0, 0
        elif seconds >= limits.max_seconds:
            cut = f"cut after {limits.max_seconds:.0f} seconds"
            say(f"episode {episode + 1}: return {episode_return:,.4g} so far; {cut}")
            return


def _last_frames(rendered: RenderedEnv, info: Mapping[str, Any], every: int) -> Iterator[np.ndarray | None]:
    rendered.end_episode(info)
    for _ in range(max(1, round(HOLD_SECONDS * rendered.fps / every))):
        yield rendered.frame()
