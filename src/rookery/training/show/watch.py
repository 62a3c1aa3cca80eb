"""`rookery watch`: see a trained agent play, in a video file or in a window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import say
from rookery.engine.seeding import child_seed
from rookery.engine.settings import positive_int
from rookery.errors import OptionError
from rookery.files import own_folder
from rookery.learners.agent import Agent
from rookery.training.evaluation.trained_run import open_run
from rookery.training.resolve.world_choice import World, find
from rookery.training.show.episode import HOLD, Length, act, outcome
from rookery.training.show.grid import MOST, play_grid, show_in_window, usual_count
from rookery.training.show.scene import Scene, check_screen, open_scene, open_scenes
from rookery.training.show.versus import Rivals, against, needs_opponent, usual_opponent
from rookery.training.show.video import playable, thinned, write_video
from rookery.training.storage.shipped_agents import shipped_agent, shipped_world


@dataclass(frozen=True)
class Show:
    """What is to be seen: an agent in a world, against someone if that is a game for two."""

    world: World
    agent: Agent
    seed: int
    rivals: Rivals | None = None


def watch(
    run: str | Path | None,
    runs_dir: str | Path = "runs",
    episodes: int | None = None,
    out: str | Path | None = None,
    live: bool = False,
    fps: float | None = None,
    best: bool = False,
    seed: int | None = None,
    opponent: str | None = None,
    grid: int | bool = False,
    trust: bool = False,
) -> Path | None:
    """Show a run's agent playing; returns the video, if it is one.

    Args:
        run: Its name in `runs_dir`, its path, or "latest"; the name of an agent that is installed with a world, unless
            there is a run of that name; None for the default game's agent.
        episodes: How many; left out, up to 5 that fill 10 seconds.
        out: The video's file, as .mp4, .gif or .webp; left out, `videos/step-N.mp4` in the run's folder, or
            `step-N-grid.mp4`.
        live: Open a window instead.
        fps: Steps of the env in a second; left out, what the world says.
        best: Take the best checkpoint, not the latest.
        seed: Of the env; left out, that of the run's own evaluations, whose first episodes are shown.
        opponent: Whom to play against, in a game for two: weak, strong, none, "agent" (the one that comes with
            rookery), a run, a checkpoint's folder, or `file.py:Agent`; left out, as the world was trained in, or
            strong.
        grid: Show so many envs at once, each with `episodes` of its own; True for as many as the run trained on, up
            to 16.
        trust: Run the world's code without a question, even if it was not trained with here.
    """
    if episodes is not None:
        positive_int("episodes", episodes)
    if fps is not None and fps <= 0:
        raise OptionError(f"fps should be above 0, got {fps}")
    if out is not None and live:
        raise OptionError("give `out` for a file or `live` for a window, not both")
    _check_grid(grid)
    shipped = shipped_world(run, runs_dir)
    if shipped is not None:
        name, trained_on = shipped.name, None
        show, file = Show(find(name), shipped_agent(name), seed or 0), Path(f"{name}.mp4")
        opponent = opponent or usual_opponent(show.world)
    else:
        assert run is not None  # or the default game's agent would be shown
        trained = open_run(run, runs_dir, best, trust=trust)
        name, trained_on = trained.run.name, trained.config.num_envs
        show = Show(trained.world, trained.agent, trained.seed if seed is None else seed)
        file = trained.run.videos / f"step-{trained.step}.mp4"
        if out is None and not live:
            own_folder(trained.run.videos)
        phases = trained.config.phases
        if trained.config.opponents or any(phase.opponents for phase in phases):  # no single one is the one to show
            opponent = opponent or usual_opponent(show.world)
    if grid:
        count = usual_count(trained_on) if grid is True else grid
        # Each has an opponent of its own, who may remember what happened in its game.
        shows = [_with_opponent(show, opponent, name, runs_dir) for _ in range(count)]
        file = Path(out) if out is not None else file.with_stem(f"{file.stem}-grid")
        return _show_grid(shows, Length.of(episodes), fps, name if live else file)
    show = _with_opponent(show, opponent, name, runs_dir)
    if live:
        _show(show, episodes, fps)
        return None
    return _film(show, Path(out) if out is not None else file, episodes, fps)


def _check_grid(grid: int | bool) -> None:
    if not isinstance(grid, bool) and not 1 <= grid <= MOST:
        raise OptionError(f"grid should be a number of envs from 1 to {MOST}, got {grid}")


def record(
    world: World, agent: Agent, out: Path, seed: int, episodes: int | None = None, fps: float | None = None
) -> Path | None:
    """A video at the end of a run; None, and one line that says why, if there can be none."""
    try:
        path = _film(_with_opponent(Show(world, agent, seed)), out, episodes, fps)
    except Exception as error:  # noqa: BLE001 - whatever it is, the run was good
        say(f"no video was recorded: {' '.join(str(error).split()) or type(error).__name__}")
        return None
    say(f"a video of the agent is in {path}")
    return path


def _with_opponent(show: Show, who: str | None = None, name: str = "agent", runs_dir: str | Path = "runs") -> Show:
    """The same against `who`; left out, as it is, if the agent can play alone there."""
    if who is None and not needs_opponent(show.world, show.agent):
        return show
    world, rivals = against(show.world, show.agent, name, who or usual_opponent(show.world), runs_dir)
    return replace(show, world=world, rivals=rivals)


def _film(show: Show, out: Path, episodes: int | None, fps: float | None) -> Path:
    path = playable(out)
    with open_scene(show.world, fps=fps, rivals=show.rivals) as scene:
        every = thinned(path, scene.fps)
        frames = play(scene, show.agent, show.seed, Length.of(episodes), every)
        write_video(path, (frame for frame in frames if frame is not None), scene.fps / every)
    return path


def _show(show: Show, episodes: int | None, fps: float | None) -> None:
    with open_scene(show.world, live=True, fps=fps, rivals=show.rivals) as scene:
        for _ in play(scene, show.agent, show.seed, Length.of(episodes)):
            if scene.closed:
                return


def _show_grid(shows: Sequence[Show], length: Length, fps: float | None, out: Path | str) -> Path | None:
    """Many envs at once: in a video, or in a window with the title `out`."""
    path = playable(out) if isinstance(out, Path) else None
    if path is None:
        check_screen()
    first = shows[0]
    with open_scenes(first.world, [show.rivals for show in shows], fps=fps) as scenes:
        rate = scenes[0].fps
        every = 1 if path is None else thinned(path, rate)
        frames = play_grid(scenes, first.agent, first.seed, length, every)
        if path is None:
            show_in_window(frames, rate, f"{out} ({len(shows)} envs)")
        else:
            write_video(path, frames, rate / every)
    return path


def play(scene: Scene, agent: Agent, seed: int, length: Length, every: int = 1) -> Iterator[np.ndarray | None]:
    """Play, and give what is seen at the first of `every` steps and at the end of each episode."""
    agent.reset_memory()
    # As the engine seeds the env that evaluates, so that the same episodes are seen.
    observation, info = scene.env.reset(seed=child_seed(seed, 0))
    total = steps = episode = 0
    returns, starts = 0.0, True
    while True:
        if steps % every == 0:
            yield scene.frame()
        (action,) = act(agent, [observation], [info], [starts])
        observation, reward, terminated, truncated, info = scene.env.step(action)
        starts = terminated or truncated
        returns, steps, total = returns + float(reward), steps + 1, total + 1
        seconds = total / scene.fps
        if starts:
            episode += 1
            ended = outcome(info)
            say(f"episode {episode}: return {returns:,.4g}, {steps:,} steps{f', {ended}' if ended else ''}")
            yield from _ending(scene, info, every)
            if episode >= length.episodes or seconds >= length.enough:
                return
            observation, info = scene.env.reset()
            returns, steps = 0.0, 0
        elif seconds >= length.most:
            say(f"episode {episode + 1}: return {returns:,.4g} so far; cut after {length.most:.0f} seconds")
            return


def _ending(scene: Scene, info: Mapping[str, Any], every: int) -> Iterator[np.ndarray | None]:
    scene.end(info)
    for _ in range(max(1, round(HOLD * scene.fps / every))):
        yield scene.frame()
