"""One env of a world that can be seen, as pictures or in a window."""

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
from rookery.training.resolve.world_choice import World
from rookery.training.show.versus import Rivals, Versus
from rookery.worlds import registry
from rookery.worlds.world_spec import Viewer, load_object

USUAL_FPS = 30.0
UNSEEN = {"SDL_VIDEODRIVER": "dummy", "MUJOCO_GL": "egl"}
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")


class Scene:
    """An env and what is seen of it, drawn by the env itself or by its world's viewer. `live` ones show themselves in a
    window, and have no frames."""

    def __init__(
        self, env: gym.Env, live: bool, fps: float | None = None, note: str = "", viewer: Viewer | None = None
    ) -> None:
        self.env, self.live, self.viewer = env, live, viewer
        self.note = note  # a line for who looks on
        self.fps = fps or _own_fps(env)
        if fps and live:  # where Gymnasium's windows look how fast they should be
            env.unwrapped.metadata = {**env.unwrapped.metadata, "render_fps": fps}

    @property
    def closed(self) -> bool:
        """Whether who looked on has closed the window. Gymnasium's leave that event lying in pygame's queue."""
        if self.viewer is not None:
            return self.viewer.closed
        pygame = sys.modules.get("pygame")
        return bool(self.live and pygame and pygame.display.get_init() and pygame.event.peek(pygame.QUIT))

    def frame(self) -> np.ndarray | None:
        """The env as it is now; None if that is in a window already."""
        if self.viewer is not None:
            return self.viewer.draw("human" if self.live else "rgb_array")
        if self.live:
            return None
        picture = self._rendered()
        if isinstance(picture, list) and picture:  # modes such as rgb_array_list give all since the last call
            picture = picture[-1]
        if not isinstance(picture, np.ndarray):
            raise RunError(f"{self.env} cannot be shown: its render() should give an array, and gave {picture!r}")
        return picture

    def _rendered(self) -> Any:
        try:
            return self.env.render()
        except (MissingExtra, gym.error.DependencyNotInstalled):
            raise
        except Exception as error:
            raise RunError(f"{self.env} cannot be shown: its render() fails: {_why(error)}{_drawing_hint()}") from error

    def end(self, info: Mapping[str, Any]) -> None:
        """An episode has ended."""
        if self.viewer is not None:
            self.viewer.end_episode(info)

    def close(self) -> None:
        if self.viewer is not None:
            self.viewer.close()
        self.env.close()


def _why(error: Exception) -> str:
    if isinstance(error, NotImplementedError):
        return "it is not written: an env is seen through render() with render_mode='rgb_array'"
    return str(error) or type(error).__name__


@contextmanager
def open_scene(
    world: World, live: bool = False, fps: float | None = None, rivals: Rivals | None = None
) -> Iterator[Scene]:
    """An env of the world to look at: with a kernel world's own pictures, or else those of its Gymnasium original; of a
    game for two, with `rivals`, the first player's. What is not installed becomes an error about the world that cannot
    be shown."""
    with open_scenes(world, [rivals], live, fps) as (scene,):
        yield scene


@contextmanager
def open_scenes(
    world: World, rivals: Sequence[Rivals | None], live: bool = False, fps: float | None = None
) -> Iterator[list[Scene]]:
    """Some envs of the world, one for each of `rivals`."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if live:
        check_screen()
    try:
        with nullcontext() if live else _unseen(), ExitStack() as stack:
            scenes = [stack.enter_context(closing(_scene(world, live, fps, who))) for who in rivals]
            for note in dict.fromkeys(scene.note for scene in scenes if scene.note):
                say(note)
            yield scenes
    except (MissingExtra, gym.error.DependencyNotInstalled) as error:
        reason = str(error).partition(": pip install")[0]
        raise RunError(f"{world.name} cannot be shown: {reason}: pip install 'rookery[render]'") from error


def _scene(world: World, live: bool, fps: float | None, rivals: Rivals | None) -> Scene:
    kernel = kernel_of(resolve(world.source, kwargs=world.env_kwargs))
    if kernel:
        return _kernel_scene(world, kernel.world, live, fps, rivals)
    spec = registry.by_source(world.source)
    if spec is not None and spec.viewer is not None:
        return _viewed(spec.viewer, _made(world), live, fps, rivals)
    return Scene(_seated(_env(world, live), rivals), live, fps)


def _seated(env: gym.Env, rivals: Rivals | None) -> gym.Env:
    return env if rivals is None else Versus(env, rivals)


def _viewed(viewer: str, env: Any, live: bool, fps: float | None, rivals: Rivals | None) -> Scene:
    """An env that its world's own viewer draws."""
    drawn_by: Viewer = load_object(viewer)(env, fps or _own_fps(env), None if rivals is None else rivals.names)
    return Scene(_seated(env, rivals), live, fps, viewer=drawn_by)


def _kernel_scene(
    world: World, kernel: KernelWorld, live: bool, fps: float | None, rivals: Rivals | None = None
) -> Scene:
    if kernel.num_agents > 1:
        raise RunError(f"{world.name} cannot be shown: it is for {kernel.num_agents} agents, and this is one")
    spec = registry.by_kernel(kernel)
    if spec is not None and spec.viewer is not None:
        return _viewed(spec.viewer, KernelEnv(kernel), live, fps, rivals)
    known = kernel.metadata.get("render_modes", [])
    for mode in _modes(live):
        if mode in known:
            return Scene(_seated(_in_window(KernelEnv(kernel, render_mode=mode), live), rivals), live, fps)
    named = registry.by_source(world.source)
    original = None if named is None else named.original
    if original is None or original not in gym.registry:
        raise RunError(
            f"{world.name} cannot be shown: give {kernel.name} a method render(state, params, mode), and "
            'metadata = {"render_modes": ["rgb_array"], "render_fps": 50}'
        )
    env, note = _original(World(original, original, False, world.env_kwargs), live)
    return Scene(env, live, fps, note)


def _original(world: World, live: bool) -> tuple[gym.Env, str]:
    """Gymnasium's own env, which looks the same to an agent; and a note, as it may know fewer options than rookery's
    compiled version."""
    try:
        return _env(world, live), ""
    except RunError:
        if not world.env_kwargs:
            raise
    note = f"showing {world.name} as Gymnasium has it, which cannot be given {', '.join(world.env_kwargs)}"
    return _env(World(world.name, world.source, False), live), note


def _env(world: World, live: bool) -> gym.Env:
    refusal: Exception | None = None
    for mode in _modes(live):
        try:
            return _in_window(_made(world, render_mode=mode), live)
        except Exception as error:  # noqa: BLE001 - each world refuses in its own way
            refusal = refusal or error
    if isinstance(refusal, TypeError) and not live:
        with suppress(TypeError):  # it may take no such argument, and give pictures all the same
            return _made(world)
    mode = _modes(live)[0]
    raise RunError(f"{world.name} cannot be shown: made with render_mode={mode!r} it fails: {refusal}") from refusal


def _made(world: World, **kwargs: Any) -> gym.Env:
    return resolve(world.source, kwargs={**world.env_kwargs, **kwargs}).make(0)


def _modes(live: bool) -> tuple[str, ...]:
    return ("human", "rgb_array") if live else ("rgb_array",)


def _in_window(env: gym.Env, live: bool) -> gym.Env:
    """A live env that gives only pictures has them shown."""
    return gym.wrappers.HumanRendering(env) if live and env.render_mode == "rgb_array" else env


def _own_fps(env: gym.Env) -> float:
    try:
        return float(env.metadata["render_fps"])
    except (KeyError, TypeError, ValueError):
        return USUAL_FPS


def _screen_named() -> bool:
    return sys.platform != "linux" or any(os.environ.get(name) for name in SCREENS)


def check_screen() -> None:
    """Refuse a window where there can be none, before some library does so in its own words."""
    if not _screen_named():
        raise RunError(
            "there is no screen for a window here: neither DISPLAY nor WAYLAND_DISPLAY is set; a video file can be "
            "written instead"
        )


@contextmanager
def _unseen() -> Iterator[None]:
    """Have SDL and MuJoCo draw without a screen where there is none; they would look for it, and complain."""
    unset = [name for name in UNSEEN if name not in os.environ and not _screen_named()]
    os.environ.update({name: UNSEEN[name] for name in unset})
    try:
        yield
    finally:
        for name in unset:
            os.environ.pop(name, None)


def _drawing_hint() -> str:
    if "mujoco" not in sys.modules:
        return ""
    return f"; MuJoCo drew with MUJOCO_GL={os.environ.get('MUJOCO_GL', 'glfw')}, and there are glfw, egl and osmesa"
