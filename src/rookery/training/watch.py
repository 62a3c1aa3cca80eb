"""`rookery watch`: see a trained agent play, in a video file or in a window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rookery.engine.seeding import child_seed
from rookery.engine.settings import positive_int
from rookery.errors import OptionError
from rookery.learners.agent import Agent
from rookery.learners.observations import MASK_KEY, mask_of
from rookery.say import say
from rookery.training.scene import Scene, open_scene
from rookery.training.shipped import shipped_agent
from rookery.training.trained import open_run
from rookery.training.versus import Rivals, against, needs_opponent, usual_opponent
from rookery.training.video import playable, thinned, write_video
from rookery.training.world import World, find

HOLD = 0.7  # seconds for which the end of an episode can be seen
WINNERS = {1: "won", -1: "lost", 0: "drawn"}


@dataclass(frozen=True)
class Length:
    """How much is shown. New episodes begin until there are `episodes` of them or `enough` seconds; after `most`
    seconds it ends in the middle of one."""

    episodes: int
    enough: float
    most: float

    @classmethod
    def of(cls, episodes: int | None) -> Length:
        """A number of episodes; or as many as someone likes to look at."""
        return cls(5, enough=10.0, most=30.0) if episodes is None else cls(episodes, enough=600.0, most=600.0)


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
) -> Path | None:
    """Show a run's agent playing; returns the video, if it is one.

    Args:
        run: Its name in `runs_dir`, its path, or "latest"; None for the hockey agent that comes with rookery.
        episodes: How many; left out, up to 5 that fill 10 seconds.
        out: The video's file, as .mp4, .gif or .webp; left out, `videos/step-N.mp4` in the run's folder.
        live: Open a window instead.
        fps: Steps of the env in a second; left out, what the world says.
        best: Take the best checkpoint, not the latest.
        seed: Of the env; left out, that of the run's own evaluations, whose first episodes are shown.
        opponent: Whom to play against, in a game for two: weak, strong, none, "agent" (the one that comes with
            rookery), a run, a checkpoint's folder, or `file.py:Agent`; left out, as the world was trained in, or
            strong.
    """
    if episodes is not None:
        positive_int("episodes", episodes)
    if fps is not None and fps <= 0:
        raise OptionError(f"fps should be above 0, got {fps}")
    if out is not None and live:
        raise OptionError("give `out` for a file or `live` for a window, not both")
    if run is None:
        name = "hockey"
        show, file = Show(find(name), shipped_agent(name), seed or 0), Path(f"{name}.mp4")
        opponent = opponent or usual_opponent(show.world)
    else:
        trained = open_run(run, runs_dir, best)
        name = trained.run.name
        show = Show(trained.world, trained.agent, trained.seed if seed is None else seed)
        file = trained.run.videos / f"step-{trained.step}.mp4"
        phases = trained.config.phases
        if trained.config.opponents or any(phase.opponents for phase in phases):  # no single one is the one to show
            opponent = opponent or usual_opponent(show.world)
    show = _with_opponent(show, opponent, name, runs_dir)
    if live:
        _show(show, episodes, fps)
        return None
    return _film(show, Path(out) if out is not None else file, episodes, fps)


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


def play(scene: Scene, agent: Agent, seed: int, length: Length, every: int = 1) -> Iterator[np.ndarray | None]:
    """Play, and give what is seen at the first of `every` steps and at the end of each episode."""
    agent.forget()
    # As the engine seeds the env that evaluates, so that the same episodes are seen.
    observation, info = scene.env.reset(seed=child_seed(seed, 0))
    total = steps = episode = 0
    returns, starts = 0.0, True
    while True:
        if steps % every == 0:
            yield scene.frame()
        action = _act(agent, observation, info, starts)
        observation, reward, terminated, truncated, info = scene.env.step(action)
        starts = terminated or truncated
        returns, steps, total = returns + float(reward), steps + 1, total + 1
        seconds = total / scene.fps
        if starts:
            episode += 1
            say(f"episode {episode}: return {returns:,.4g}, {steps:,} steps{_outcome(info)}")
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


def _act(agent: Agent, observation: Any, info: Mapping[str, Any], starts: bool) -> Any:
    """The agent's action for one env, as that wants it."""
    batch = _batch_of_one(observation)
    told = {MASK_KEY: np.asarray(info[MASK_KEY])[None]} if MASK_KEY in info else None
    action = agent.act(batch, deterministic=True, mask=mask_of(batch, told), starts=np.array([starts]))[0]
    return np.asarray(action, agent.action_space.dtype) if np.ndim(action) else action


def _batch_of_one(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {name: _batch_of_one(part) for name, part in observation.items()}
    if isinstance(observation, tuple):
        return tuple(_batch_of_one(part) for part in observation)
    return np.asarray(observation)[None]


def _outcome(info: Mapping[str, Any]) -> str:
    """How it went, if the world says so.

    >>> _outcome({"winner": -1}), _outcome({"is_success": True}), _outcome({})
    (', lost', ', succeeded', '')
    """
    if "winner" in info:
        return f", {WINNERS.get(int(info['winner']), 'drawn')}"
    for name in ("is_success", "success"):
        if name in info:
            return ", succeeded" if info[name] else ", failed"
    return ""
