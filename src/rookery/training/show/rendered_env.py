"""One env of a world that can be shown, as frames or in a window."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from typing import Any

import gymnasium as gym
import numpy as np

from rookery.console import say
from rookery.engine.env_factory import kernel_of, resolve
from rookery.errors import MissingExtra, RunError
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.world import KernelWorld
from rookery.lazy import load_object
from rookery.training.resolve.world_choice import World
from rookery.training.show.episode import Matchup, OpponentWrapper
from rookery.worlds import registry
from rookery.worlds.world_spec import Viewer

DEFAULT_FPS = 30.0


class RenderedEnv:
    """An env and its frames, drawn by `env.render()` or by its world's viewer. A `live` one is shown in a window."""

    def __init__(
        self, env: gym.Env, live: bool, fps: float | None = None, note: str = "", viewer: Viewer | None = None
    ) -> None:
        self.env, self.live, self.viewer = env, live, viewer
        self.name = str(env)  # in errors
        self.note = note  # a line for the user
        self.fps = fps or _own_fps(env)
        if fps and live:  # Gymnasium's windows read their frame rate there
            env.unwrapped.metadata = {**env.unwrapped.metadata, "render_fps": fps}

    @property
    def closed(self) -> bool:
        """Whether the user has closed the window. Gymnasium's windows leave that event in pygame's queue."""
        if self.viewer is not None:
            return self.viewer.closed
        pygame = sys.modules.get("pygame")
        return bool(self.live and pygame and pygame.display.get_init() and pygame.event.peek(pygame.QUIT))

    def frame(self) -> np.ndarray | None:
        """The env as it is now; None if a window shows it."""
        if self.viewer is not None:
            return self.viewer.draw("human" if self.live else "rgb_array")
        if self.live:
            return None
        frame = self._rendered()
        if isinstance(frame, list) and frame:  # modes such as rgb_array_list give all frames since the last call
            frame = frame[-1]
        if not isinstance(frame, np.ndarray):
            raise RunError(f"{self.name} cannot be shown: its render() should return an array, and returned {frame!r}")
        return frame

    def _rendered(self) -> Any:
        try:
            return self.env.render()
        except (MissingExtra, gym.error.DependencyNotInstalled):
            raise
        except Exception as error:
            raise RunError(f"{self.name} cannot be shown: its render() fails: {_why(error)}{render_hint()}") from error

    def end_episode(self, info: Mapping[str, Any]) -> None:
        if self.viewer is not None:
            self.viewer.end_episode(info)

    def close(self) -> None:
        if self.viewer is not None:
            self.viewer.close()
        self.env.close()


def _why(error: Exception) -> str:
    if isinstance(error, NotImplementedError):
        return "it is not implemented; an env is shown by render() with render_mode='rgb_array'"
    return str(error) or type(error).__name__


def _own_fps(env: gym.Env) -> float:
    try:
        return float(env.metadata["render_fps"])
    except (KeyError, TypeError, ValueError):
        return DEFAULT_FPS


@contextmanager
def open_rendered(
    world: World, live: bool = False, fps: float | None = None, matchup: Matchup | None = None
) -> Iterator[RenderedEnv]:
    """An env of the world to show. A kernel world is drawn by its world's viewer, its own `render`, or the Gymnasium
    env that it is the compiled version of. With `matchup` it is a two-player game, played as the first player. If a
    package is missing, the error names the world and the extra."""
    with open_rendered_envs(world, [matchup], live, fps) as (rendered,):
        yield rendered


@contextmanager
def open_rendered_envs(
    world: World, matchups: Sequence[Matchup | None], live: bool = False, fps: float | None = None
) -> Iterator[list[RenderedEnv]]:
    """Several envs of the world, one per matchup."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if live:
        check_display()
    try:
        with nullcontext() if live else headless(), ExitStack() as stack:
            opened = [stack.enter_context(closing(_rendered_env(world, live, fps, each))) for each in matchups]
            for rendered in opened:
                rendered.name = world.name
            for note in dict.fromkeys(rendered.note for rendered in opened if rendered.note):
                say(note)
            yield opened
    except (MissingExtra, gym.error.DependencyNotInstalled) as error:
        reason = str(error).partition(": pip install")[0]
        raise RunError(f"{world.name} cannot be shown: {reason}: pip install 'rookery[render]'") from error


def _rendered_env(world: World, live: bool, fps: float | None, matchup: Matchup | None) -> RenderedEnv:
    kernel = kernel_of(resolve(world.source, kwargs=world.env_kwargs))
    if kernel:
        return _rendered_kernel(world, kernel.world, live, fps, matchup)
    spec = registry.by_source(world.source)
    if spec is not None and spec.viewer is not None:
        bare = resolve(world.source, kwargs=world.env_kwargs).make(0)
        return _with_viewer(spec.viewer, world, bare, live, fps, matchup)
    return RenderedEnv(_with_opponent(_gym_env(world, live), matchup), live, fps)


def _with_opponent(env: gym.Env, matchup: Matchup | None) -> gym.Env:
    return env if matchup is None else OpponentWrapper(env, matchup)


def _with_viewer(
    place: str, world: World, env: Any, live: bool, fps: float | None, matchup: Matchup | None
) -> RenderedEnv:
    """An env that its world's own viewer draws; the agent sees it through the world's wrappers."""
    viewer: Viewer = load_object(place)(env, fps or _own_fps(env), None if matchup is None else matchup.names)
    return RenderedEnv(_with_opponent(world.factory.wrap(env), matchup), live, fps, viewer=viewer)


def _rendered_kernel(
    world: World, kernel: KernelWorld, live: bool, fps: float | None, matchup: Matchup | None
) -> RenderedEnv:
    if kernel.num_agents > 1:
        raise RunError(f"{world.name} cannot be shown: it has {kernel.num_agents} agents per env, and one can be shown")
    spec = registry.by_kernel(kernel)
    if spec is not None and spec.viewer is not None:
        return _with_viewer(spec.viewer, world, KernelEnv(kernel), live, fps, matchup)
    known = kernel.metadata.get("render_modes", [])
    for mode in _render_modes(live):
        if mode in known:
            env = _in_window(world.factory.wrap(KernelEnv(kernel, render_mode=mode)), live)
            return RenderedEnv(_with_opponent(env, matchup), live, fps)
    named = registry.by_source(world.source)
    original = None if named is None else named.original
    if original is None or original not in gym.registry:
        raise RunError(
            f"{world.name} cannot be shown: give {kernel.name} a method render(state, params, mode), and "
            'metadata = {"render_modes": ["rgb_array"], "render_fps": 50}'
        )
    env, note = _original_env(World(original, original, False, world.env_kwargs), live)
    return RenderedEnv(env, live, fps, note)


def _original_env(world: World, live: bool) -> tuple[gym.Env, str]:
    """Gymnasium's own env, which has the same observations; and a note if it takes fewer options than the compiled
    version."""
    try:
        return _gym_env(world, live), ""
    except RunError:
        if not world.env_kwargs:
            raise
    note = f"showing Gymnasium's {world.name}, which does not take the option {', '.join(world.env_kwargs)}"
    return _gym_env(World(world.name, world.source, False), live), note


def _gym_env(world: World, live: bool) -> gym.Env:
    refusal: Exception | None = None
    for mode in _render_modes(live):
        try:
            return _in_window(_make(world, render_mode=mode), live)
        except Exception as error:  # noqa: BLE001 - an env can fail in any way
            refusal = refusal or error
    if isinstance(refusal, TypeError) and not live:
        with suppress(TypeError):  # it may not take `render_mode`, and return frames all the same
            return _make(world)
    mode = _render_modes(live)[0]
    raise RunError(f"{world.name} cannot be shown: made with render_mode={mode!r} it fails: {refusal}") from refusal


def _make(world: World, **kwargs: Any) -> gym.Env:
    return world.factory_with(**kwargs).make(0)


def _render_modes(live: bool) -> tuple[str, ...]:
    return ("human", "rgb_array") if live else ("rgb_array",)


def _in_window(env: gym.Env, live: bool) -> gym.Env:
    """The env; a live one that only returns frames gets a window."""
    return gym.wrappers.HumanRendering(env) if live and env.render_mode == "rgb_array" else env


HEADLESS = {"SDL_VIDEODRIVER": "dummy", "MUJOCO_GL": "egl"}
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")


def has_display() -> bool:
    """Whether a window can probably be opened."""
    return sys.platform != "linux" or any(os.environ.get(name) for name in DISPLAYS)


def check_display() -> None:
    """Raise if there is no display for a window, before some library does so with a less clear message."""
    if not has_display():
        raise RunError(
            "there is no screen for a window here: neither DISPLAY nor WAYLAND_DISPLAY is set; write a video file "
            "instead"
        )


@contextmanager
def headless() -> Iterator[None]:
    """Without a display, make SDL and MuJoCo render offscreen: otherwise they search for one and fail."""
    unset = [name for name in HEADLESS if name not in os.environ and not has_display()]
    os.environ.update({name: HEADLESS[name] for name in unset})
    try:
        yield
    finally:
        for name in unset:
            os.environ.pop(name, None)


def render_hint() -> str:
    """What may help after `env.render()` has failed."""
    if "mujoco" not in sys.modules:
        return ""
    return f"; MuJoCo rendered with MUJOCO_GL={os.environ.get('MUJOCO_GL', 'glfw')}; there are glfw, egl and osmesa"
