"""From a world, as a user names it, to functions that build its envs.

A world is a Gymnasium id or EnvSpec, a class, any callable, `"file.py:MyEnv"`, or a list of callables (one per env).
"""

from __future__ import annotations

import copy
import difflib
import functools
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from rookery.console import join_or
from rookery.engine.wrapping import EnvWrapper, ImageSize, as_wrappers, with_image_size
from rookery.errors import OptionError, SpaceError, WorldError
from rookery.foreign_names import STAND_INS, world_answer
from rookery.gate import allow_given
from rookery.user_code import file_here, load_file, written_in

if TYPE_CHECKING:  # what translates worlds is imported where there is one: workers of other envs start without it
    from rookery.kernel.world import KernelWorld

OPTIONS_APART = "; its options are apart: --set world_options.NAME=VALUE, in Python env_kwargs={...}"
KERNEL_ENV = "rookery.kernel.kernel_env:KernelEnv"  # the entry point of registered kernel worlds


@dataclass(frozen=True)
class EnvFactory:
    """Builds env number `index` of a world. It is sent to workers, so it holds no env and no open resource."""

    makers: tuple[Callable[[], Any], ...]
    name: str
    endless: bool  # the makers, in turns, build any number of envs; otherwise there is one maker per env
    wrappers: tuple[EnvWrapper, ...] = ()  # applied to each env, the first one innermost
    image_size: ImageSize = "full"  # of observations, after all wrappers

    def make(self, index: int) -> gym.Env:
        env = self.makers[index % len(self.makers) if self.endless else index]()
        if is_kernel_world(env):
            from rookery.kernel.kernel_env import KernelEnv

            env = KernelEnv(env)
        if not isinstance(env, gym.Env):
            hint = " (for a PettingZoo env use rookery.pettingzoo.make_vec)" if hasattr(env, "possible_agents") else ""
            raise WorldError(f"{self.name} should build a gymnasium.Env, but it returned {_describe(env)}{hint}")
        return self.wrap(env)

    def wrap(self, env: gym.Env) -> gym.Env:
        """An env in all wrappers, with its images shrunk."""
        for wrapper in self.wrappers:
            env = wrapper(env)
        _check_spaces(env)
        return with_image_size(env, self.image_size)

    @property
    def label(self) -> tuple[str, ...]:
        """Where its envs come from, for what is remembered within a program. Different worlds may share it."""
        functions = [getattr(maker, "function", maker) for maker in self.makers]
        names = {f"{f.__module__}.{getattr(f, '__qualname__', type(f).__qualname__)}" for f in functions}
        return self.name, *sorted(names)

    def with_kwargs(self, kwargs: dict[str, Any]) -> EnvFactory:
        """The same with more keyword arguments, for makers that take any."""
        if not kwargs:
            return self
        known = [replace(m, kwargs={**m.kwargs, **kwargs}) if hasattr(m, "kwargs") else m for m in self.makers]  # type: ignore[type-var]
        return replace(self, makers=tuple(known))


@dataclass(frozen=True)
class RegisteredEnv:
    """Builds an env by `gymnasium.make`, without the two wrappers whose checks the engine does itself, and faster: the
    passive checker (every observation is checked) and the order enforcer (no env is stepped before a reset). Each of
    them costs 0.5 us per step."""

    spec: gym.envs.registration.EnvSpec
    kwargs: dict[str, Any]

    def __call__(self) -> gym.Env:
        spec = copy.deepcopy(self.spec)
        spec.order_enforce = False
        if _is_kernel_env(spec):  # a worker may not have registered the world's name
            from rookery.kernel.kernel_env import registered_world

            spec.kwargs["world"] = registered_world(spec.kwargs["world"])
        return gym.make(spec, disable_env_checker=True, **self.kwargs)


@dataclass(frozen=True)
class EnvFromFile:
    """Builds an env by a class or function in a Python file, which need not be importable by name."""

    path: str
    attribute: str
    kwargs: dict[str, Any]

    def __call__(self) -> Any:
        return world_in(self.path, self.attribute)(**self.kwargs)


@dataclass(frozen=True)
class EnvFromCallable:
    """Builds an env by a callable with its keyword arguments."""

    function: Callable[..., Any]
    kwargs: dict[str, Any]

    def __call__(self) -> Any:
        return self.function(**self.kwargs)


@dataclass(frozen=True)
class EnvFromWorld:
    """Gives a kernel world that was built already; its envs share it, as it holds no state."""

    world: KernelWorld

    def __call__(self) -> KernelWorld:
        return self.world


@dataclass(frozen=True)
class KernelSource:
    """A kernel world and how to show it, for the backends that compile it."""

    world: KernelWorld
    render_mode: str | None = None
    spec: Any = None


def kernel_of(source: EnvFactory, build: bool = False) -> KernelSource | None:
    """The kernel world that a factory builds, None if it builds ordinary envs. Any function may return a kernel world:
    `build` calls it to find out."""
    maker = source.makers[0]
    several = len(source.makers) > 1
    if several or not source.endless or source.wrappers or isinstance(source.image_size, tuple):  # env by env
        return None
    if isinstance(maker, RegisteredEnv):
        if not _is_kernel_env(maker.spec) or maker.spec.additional_wrappers:
            return None
        kwargs: dict[str, Any] = {**maker.spec.kwargs, **maker.kwargs}
        limit, mode = kwargs.pop("max_episode_steps", maker.spec.max_episode_steps), kwargs.pop("render_mode", None)
        if kwargs.pop("plain", False):  # to be run as plain Python, env by env
            return None
        from rookery.kernel.kernel_env import find_world, registered_world

        world = find_world(registered_world(kwargs.pop("world")), kwargs)
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise OptionError(f"max_episode_steps should be a positive integer, got {limit!r:.60}")
        if limit is not None:  # as Gymnasium's TimeLimit would do beside the world's own limit
            world.values["time_limit"] = min(limit, world.values["time_limit"] or limit)
        return KernelSource(world, mode, maker.spec)
    if isinstance(maker, EnvFromCallable) and _is_kernel_class(maker.function):
        return KernelSource(maker())
    if isinstance(maker, EnvFromWorld):
        return KernelSource(maker.world)
    if isinstance(maker, EnvFromFile):
        found = world_in(maker.path, maker.attribute)
        return KernelSource(maker()) if _is_kernel_class(found) else None
    made = maker() if build else None
    return KernelSource(made) if made is not None and is_kernel_world(made) else None


def is_kernel_world(made: Any) -> bool:
    return _is_kernel_class(type(made))


def _is_kernel_class(found: Any) -> bool:
    """Nothing can be one before their class was imported."""
    module = sys.modules.get("rookery.kernel.world")
    return module is not None and isinstance(found, type) and issubclass(found, module.KernelWorld)


def _is_kernel_env(spec: gym.envs.registration.EnvSpec) -> bool:
    """By the entry point, which earlier versions registered as a class."""
    entry = spec.entry_point
    name = entry if isinstance(entry, str) else f"{entry.__module__}:{getattr(entry, '__qualname__', '')}"
    return name == KERNEL_ENV


def resolve(world: Any, num_envs: int | None = None, kwargs: dict[str, Any] | None = None) -> EnvFactory:
    """Check what can be checked without building an env, and return the builder."""
    if not isinstance(kwargs, (dict, NoneType)):
        raise OptionError(f"env_kwargs should be a dict of keyword arguments, got {kwargs!r}")
    kwargs = dict(kwargs or {})
    if isinstance(world, EnvFactory):
        return world.with_kwargs(kwargs)
    if isinstance(world, (str, gym.envs.registration.EnvSpec)):
        return _named(world, kwargs)
    if isinstance(world, gym.Env):
        raise WorldError(
            f"got an env instance, {_describe(world)}: many copies are needed, so give its class, "
            "or a function that builds one, such as `lambda: MyEnv()`"
        )
    if is_kernel_world(world):
        if kwargs:
            raise WorldError(
                f"env_kwargs {', '.join(kwargs)} were given with a KernelWorld instance; give its class instead"
            )
        return EnvFactory((EnvFromWorld(world),), world.name, endless=True)
    if callable(world):
        return EnvFactory((EnvFromCallable(world, kwargs),), getattr(world, "__name__", repr(world)), endless=True)
    if isinstance(world, Sequence) and world:
        return _listed(world, num_envs, kwargs)
    raise WorldError(
        f"{world!r} is not a world: give a Gymnasium id, a class, a function that makes an env, 'file.py:MyEnv', or "
        "a list of functions"
    )


def resolve_given(world: Any, num_envs: int | None = None, kwargs: dict[str, Any] | None = None) -> EnvFactory:
    """The same, for a world that the user of this process names: code in a file may be imported."""
    allow_given(world)
    return resolve(world, num_envs, kwargs)


def with_wrappers(source: EnvFactory, wrappers: Any, backend: str = "auto") -> EnvFactory:
    """A factory whose envs are wrapped; OptionError for backends that run compiled code alone."""
    added = as_wrappers(wrappers)
    if added and backend in ("kernel", "cuda"):
        raise OptionError(
            f"wrappers are Python code, and backend={backend!r} runs compiled code: use backend='process' or 'serial'"
        )
    return replace(source, wrappers=source.wrappers + added) if added else source


def world_in(path: str, attribute: str) -> Callable[..., Any]:
    """The class or function `attribute` of a file, if it is an env, a kernel world, or a function written in that file:
    not every callable that a file imports should be called."""
    found = getattr(load_file(path), attribute, None)
    inner = found.func if isinstance(found, functools.partial) else found
    is_world = (
        issubclass(inner, gym.Env) or _is_kernel_class(inner) if isinstance(inner, type) else written_in(path, inner)
    )
    if not is_world:
        raise WorldError(
            f"{path}:{attribute} is not a world: it should be a class derived from gymnasium.Env or KernelWorld, or a "
            "function in that file that returns one"
        )
    return found  # type: ignore[return-value]


def _named(world: Any, kwargs: dict[str, Any]) -> EnvFactory:
    if isinstance(world, str) and ".py:" in world:
        path, _, attribute = world.rpartition(":")
        if not file_here(path).is_file():
            raise WorldError(no_file(world, path))
        module = load_file(path)
        if not callable(getattr(module, attribute, None)):
            envs = [name for name, item in vars(module).items() if isinstance(item, type) and issubclass(item, gym.Env)]
            name, bracket, _ = attribute.partition("(")
            near = difflib.get_close_matches(name, envs, 1)
            hint = f"did you mean {near[0]}?" if near else f"envs in it: {', '.join(envs) or 'none'}"
            hint += OPTIONS_APART if bracket else ""
            raise WorldError(f"{world!r}: {path} has no class or function {attribute!r}; {hint}")
        world_in(path, attribute)
        return EnvFactory((EnvFromFile(str(Path(path).resolve()), attribute, kwargs),), world, endless=True)
    stands_in = next(filter(None, (find(world) for find in STAND_INS)), None) if isinstance(world, str) else None
    if stands_in is not None:
        source, options = stands_in
        return EnvFactory((RegisteredEnv(gym.spec(source), {**options, **kwargs}),), world, endless=True)
    spec = _find_spec(world) if isinstance(world, str) else world
    if "world" in kwargs and _is_kernel_env(spec):
        raise WorldError(f"{spec.id}: an option cannot name another world, got world={kwargs['world']!r:.60}")
    return EnvFactory((RegisteredEnv(spec, kwargs),), spec.id, endless=True)


def _find_spec(world: str) -> gym.envs.registration.EnvSpec:
    """The spec behind an id, which workers can use even if it was registered by the caller's own script. An unknown
    id is rejected here, before any process starts, with the nearest known ones."""
    try:
        return gym.spec(world)
    except ModuleNotFoundError as error:
        raise WorldError(f"{world!r}: a module it needs cannot be imported ({error})") from None
    except gym.error.Error:
        near = difflib.get_close_matches(world, list(gym.registry), n=3, cutoff=0.6)
        meant = f"did you mean {join_or(near)}?" if near else _elsewhere(world)
        hint = world_answer(world, near) or meant
        raise WorldError(f"{world!r} is not a registered Gymnasium id; {hint}") from None


def file_meant(world: str) -> str:
    """The class in a file here that a name such as "my_env:MyEnv", "my_env.MyEnv" or "my_env.py" may mean, else ""."""
    words = re.split(r"\.py\b:*|[.:/\\]+", world.removeprefix("./").removesuffix(".py"))
    *module, name = [word for word in words if word] or [""]
    file = f"{'/'.join(module or [name])}.py"
    return f"{file}:{name if module else 'MyEnv'}" if os.path.isfile(file) else ""  # any text at all is a question


def no_file(world: str, path: str) -> str:
    """The message about a class in a file that does not exist."""
    meant = file_meant(world)
    return f"{world!r}: there is no file {path!r}" + (f"; did you mean {meant}?" if meant else "")


def _elsewhere(world: str) -> str:
    """Where a world that is not registered may be: in a file here, or in a package."""
    package = world.partition(":")[0].partition(".")[0]
    if meant := file_meant(world):
        return f"did you mean {meant}?"
    if ":" in world and package.isidentifier() and find_spec(package) is None:
        return f"there is no package {package}: install it, or give a class in a file, such as my_env.py:MyEnv"
    return (
        "give a class in a file, such as my_env.py:MyEnv, or an id with the package that registers it: package:MyEnv-v0"
    )


def _listed(world: Sequence[Any], num_envs: int | None, kwargs: dict[str, Any]) -> EnvFactory:
    for k, item in enumerate(world):
        if not callable(item) or isinstance(item, gym.Env):
            raise WorldError(
                f"item {k} of the list of worlds should be a class or function that makes an env, got {item!r:.60}; "
                "for 8 copies of one env write rookery.make_vec(env, 8), with its id, class or function"
            )
    if num_envs is not None and num_envs != len(world):
        raise WorldError(f"num_envs={num_envs}, but the list contains {len(world)} worlds; omit num_envs")
    makers = tuple(EnvFromCallable(item, kwargs) for item in world)
    return EnvFactory(makers, f"a list of {len(world)} worlds", endless=False)


def _check_spaces(env: gym.Env) -> None:
    found = {name: getattr(env, name, None) for name in ("observation_space", "action_space")}
    wrong = {name: space for name, space in found.items() if not isinstance(space, gym.Space)}
    if wrong:
        each = "; ".join(f"{name} should be a gymnasium Space, got {space!r}" for name, space in wrong.items())
        raise SpaceError(f"{each}: set it in the class or in __init__()")


def _describe(item: Any) -> str:
    return f"{type(item).__module__}.{type(item).__qualname__}"
