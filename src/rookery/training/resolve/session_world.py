"""Worlds that are objects of a Python session: an env, a vector env, a lambda, a class in a notebook.

A run records a world by a name that another process can find. A world without such a name is recorded as "object:NAME":
such a run can be trained, loaded, and resumed in Python with the object, but not from the shell.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from rookery.engine.engine import Engine
from rookery.engine.env_factory import (
    EnvFactory,
    EnvFromCallable,
    EnvFromFile,
    EnvFromWorld,
    RegisteredEnv,
    kernel_of,
    resolve,
)
from rookery.errors import WorldError
from rookery.kernel.world import KernelWorld
from rookery.training.resolve.tensor_world import TensorWorld, tensor_world_of
from rookery.training.resolve.world_choice import find, name_of_object
from rookery.user_code import OBJECT
from rookery.worlds import registry

# What says how an env was made and shown, and is not an option of the world.
OF_THE_CALL = ("num_envs", "render_mode", "vector_kwargs", "vectorization_mode", "wrappers")


@dataclass(frozen=True)
class SessionWorld:
    """How a run records a world that the user gave as an object, and what makes its envs."""

    name: str  # an id, "file.py:MyEnv" or "object:NAME"
    source: Any = None  # what the engine takes; None if the name is all it takes
    num_envs: int | None = None  # of a vector env
    options: dict[str, Any] | None = None  # of the world
    settings: dict[str, Any] = field(default_factory=dict)  # how an engine steps its envs, as keys of a configuration


@dataclass(frozen=True)
class EnvCopies:
    """Builds copies of an env."""

    env: gym.Env

    def __call__(self) -> gym.Env:
        try:
            return copy.deepcopy(self.env)
        except Exception as error:
            raise WorldError(
                f"{self.env} cannot be copied ({type(error).__name__}: {error}), and a run needs several envs: give "
                "its class, or a function that makes one, such as `lambda: MyEnv()`"
            ) from error


def session_world(world: Any) -> SessionWorld:
    """The world of an env, a vector env (also of Stable-Baselines3), an EnvSpec, a class or a function."""
    world = engine_in(world)
    if isinstance(world, list) and world and all(isinstance(env, gym.Env) for env in world):
        return _of_envs(world)
    if isinstance(world, (list, tuple)) and world and all(callable(each) for each in world):
        return replace(_of_functions(list(world)), num_envs=len(world))
    tensors = tensor_world_of(world)
    if tensors is not None:
        return _of_tensors(world, tensors)
    if isinstance(world, gym.vector.VectorEnv):
        return _of_vector_env(world)
    if isinstance(world, gym.Env):
        return _of_env(world)
    if isinstance(world, EnvSpec):
        return _of_spec(world)
    if not callable(world) and not isinstance(world, EnvFactory):
        resolve(world)  # its error says what a world may be
    try:
        return SessionWorld(name_of_object(world), world)
    except WorldError:
        return SessionWorld(f"{OBJECT}{_title(world)}", world)


def _of_tensors(world: Any, tensors: TensorWorld) -> SessionWorld:
    """The vector env itself, or what makes it: its envs cannot be made one by one."""
    inner = getattr(world, "unwrapped", None) if tensors.make is None else None
    title = _title(world if inner is None else type(inner))
    return SessionWorld(f"{OBJECT}{title}", tensors, None if inner is None else int(inner.num_envs))


def with_objects(world: str, options: Mapping[str, Any]) -> SessionWorld | None:
    """The world of an id or a short name with options that no configuration can hold, such as arrays; None if there are
    none."""
    if not recordable(options)[1]:
        return None
    found = find(world, options=options)
    if not isinstance(found.source, str) or found.source not in gym.registry:
        return None
    return _of_spec(gym.spec(found.source), found.env_kwargs)


def _of_env(env: gym.Env) -> SessionWorld:
    """An env that Gymnasium can make again is made again; of others there are copies."""
    spec = env.spec
    if spec is not None and all(wrapper.kwargs is not None for wrapper in spec.additional_wrappers):
        return _of_spec(spec)
    title = _title(type(env.unwrapped))
    return SessionWorld(f"{OBJECT}{title}", EnvFactory((EnvCopies(env),), title, endless=True))


def _of_envs(envs: list[gym.Env]) -> SessionWorld:
    """Copies of several envs, in turns; of one if they were made alike."""
    found = [_of_env(env) for env in envs]
    if found[0].source is None and all(other == found[0] for other in found):
        return replace(found[0], num_envs=len(envs))
    title = _title(type(envs[0].unwrapped))
    source = EnvFactory(tuple(map(EnvCopies, envs)), title, endless=True)
    return SessionWorld(f"{OBJECT}{title}", source, len(envs))


def _of_spec(spec: EnvSpec, kwargs: Mapping[str, Any] | None = None) -> SessionWorld:
    """By its id, with the options that differ from the registered ones, if that is all it takes."""
    known = gym.registry.get(spec.id)
    if known is None or known.entry_point != spec.entry_point or spec.additional_wrappers:
        return SessionWorld(f"{OBJECT}{_plain(spec.id)}-wrapped", spec)
    own = {**spec.kwargs, **(kwargs or {}), "max_episode_steps": spec.max_episode_steps}
    own = {key: value for key, value in own.items() if key not in OF_THE_CALL}
    options, objects = recordable({key: value for key, value in own.items() if key != "world"})
    usual = {**known.kwargs, "max_episode_steps": known.max_episode_steps}
    changed = {key: value for key, value in options.items() if usual.get(key) != value}
    if objects:  # such as an array, which a configuration cannot hold
        source = EnvFactory((RegisteredEnv(spec, objects),), spec.id, endless=True)
        return SessionWorld(f"{OBJECT}{_plain(_short(spec.id))}", source, options=changed)
    return SessionWorld(_short(spec.id), options=changed)


def _short(gym_id: str) -> str:
    """The name that rookery's registry has for an id: recipes belong to names."""
    spec = registry.by_source(gym_id)
    return spec.name if spec is not None and spec.original is None and spec.source == gym_id else gym_id


def _of_vector_env(envs: gym.vector.VectorEnv) -> SessionWorld:
    """As many envs, made in the same way."""
    inner: Any = envs.unwrapped
    spec = getattr(inner, "spec", None)
    if isinstance(getattr(inner, "source", None), EnvFactory):
        found = _of_engine(inner)
    elif isinstance(spec, EnvSpec) and not spec.kwargs.get("wrappers"):  # made by gymnasium.make_vec
        found = _of_spec(spec)
    elif getattr(inner, "env_fns", None):
        found = _of_functions(list(inner.env_fns))
    else:
        raise WorldError(
            f"{envs} does not say how its envs are made: give the class of the env, or a function that makes one"
        )
    return replace(found, num_envs=int(getattr(inner, "num_worlds", inner.num_envs)))


def _of_functions(functions: list[Any]) -> SessionWorld:
    """One function for all envs, or several in turns, such as one for each symbol of a market."""
    if all(function is functions[0] for function in functions):
        return session_world(functions[0])
    makers = tuple(EnvFromCallable(function, {}) for function in functions)
    return SessionWorld(f"{OBJECT}{_title(functions[0])}", EnvFactory(makers, _title(functions[0]), endless=True))


def _of_engine(engine: Any) -> SessionWorld:
    """Of an engine that rookery has made, with the parameters that were set on it."""
    source, changed = engine.source, changed_parameters(engine)
    maker = source.makers[0]
    if changed:
        options = with_parameters(source, maker.kwargs, changed) if hasattr(maker, "kwargs") else None
        maker = world_with(engine.world, changed) if options is None else replace(maker, kwargs=options)
        source = replace(source, makers=(maker,))
    return replace(_of_factory(source), settings=settings_of(engine))


def _of_factory(source: EnvFactory) -> SessionWorld:
    """By a name that another process can find, if there is one and a run can record the options."""
    maker = source.makers[0]
    title = f"{OBJECT}{_plain(source.name)}"
    if len(source.makers) > 1:
        same = all(other == maker for other in source.makers)
        return SessionWorld(title, replace(source, makers=(maker,) if same else source.makers, endless=True))
    if source.wrappers:
        return SessionWorld(title, source)
    if isinstance(maker, RegisteredEnv):
        return _of_spec(maker.spec, maker.kwargs)
    options, objects = recordable(getattr(maker, "kwargs", {}))
    if objects:
        return SessionWorld(title, source)
    if isinstance(maker, EnvFromFile):
        return SessionWorld(f"{maker.path}:{maker.attribute}", options=options)
    if isinstance(maker, EnvFromCallable):
        return replace(session_world(maker.function), options=options)
    return SessionWorld(title, source)


def _title(world: Any) -> str:
    inner = world.func if isinstance(world, functools.partial) else world
    return _plain(getattr(inner, "name", None) or getattr(inner, "__qualname__", type(inner).__name__))


def _plain(name: object) -> str:
    """A name of letters and digits: of a lambda, or a class within a function, its last part."""
    last = str(name).rpartition(".")[2] if "<locals>" in str(name) else str(name)
    return re.sub(r"[^\w.=-]+", "-", last).strip("-") or "env"


ONLY_COUNT = ("VecMonitor", "VecCheckNan", "VecVideoRecorder")  # of Stable-Baselines3: they change nothing of a step


def engine_in(world: Any) -> Any:
    """The engine in a Stable-Baselines3 `VecEnv` of `rookery.sb3`, also in a `VecMonitor`; anything else as it is."""
    if not _is_sb3(world):
        return world
    while hasattr(world, "venv"):
        kind = type(world).__name__
        if kind not in ONLY_COUNT:
            raise WorldError(
                f"{kind} changes what an agent sees, and a run makes its own envs without it: give the VecEnv in it "
                "(`.venv`), and use the learner's `normalise_observations` or `wrappers` in the run"
            )
        world = world.venv
    if isinstance(getattr(world, "engine", None), Engine):
        return world.engine
    if getattr(world, "envs", None):  # DummyVecEnv keeps its envs
        return list(world.envs)
    raise WorldError(
        f"{type(world).__name__} does not say how its envs are made: give rookery.sb3.VecEnv(env_fns), or the function "
        "that makes one env"
    )


def _is_sb3(world: Any) -> bool:
    return any(kind.__name__ == "VecEnv" and "stable_baselines3" in kind.__module__ for kind in type(world).__mro__)


def settings_of(engine: Any) -> dict[str, Any]:
    """How the engine steps its envs, as keys of a configuration."""
    if not isinstance(engine, Engine):
        return {}
    settings = engine.settings
    found: dict[str, Any] = {"backend": engine.backend}
    if engine.backend in ("process", "thread"):
        found["workers"] = engine.workers
    if settings.start_method is not None:
        found["start_method"] = settings.start_method
    if settings.step_timeout is not None:
        found["step_timeout"] = settings.step_timeout
    return found


def recordable(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of a world as a run can record them, paths as text; and those that are objects, such as arrays.

    >>> recordable({"data": Path("/bars"), "symbols": ("A", "B"), "fee": np.float64(0.1), "prices": np.zeros(3)})
    ({'data': '/bars', 'symbols': ['A', 'B'], 'fee': 0.1}, {'prices': array([0., 0., 0.])})
    """
    plain, objects = {}, {}
    for name, value in options.items():
        try:
            plain[str(name)] = _without_arrays(value)
        except TypeError:
            objects[str(name)] = value
    return plain, objects


def _without_arrays(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value.expanduser().resolve())
    if isinstance(value, np.generic):
        return _without_arrays(value.item())
    if isinstance(value, Mapping):
        return {str(key): _without_arrays(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_arrays(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{type(value).__name__} cannot be recorded")


def changed_parameters(engine: Any) -> dict[str, Any]:
    """Parameters that were set on an engine of a kernel world since it was made, the same for all envs.

    Raises:
        WorldError: They differ between the envs.
    """
    world = getattr(engine, "world", None)
    if not isinstance(world, KernelWorld) or not isinstance(engine, Engine):
        return {}
    changed = {}
    for name, values in engine.parameters.items():  # type: ignore[attr-defined]
        if np.array_equal(values, np.broadcast_to(np.asarray(world.values[name]), values.shape)):
            continue
        if not np.array_equal(values, np.broadcast_to(values[:1], values.shape)):
            raise WorldError(
                f"the envs of {world.name} have different values of the parameter {name!r}, and a run makes envs of "
                f"its own: set one value for all of them, or change it during the run with `phases` or a callback"
            )
        changed[name] = values[0].tolist()
    return changed


def with_parameters(
    source: EnvFactory, options: Mapping[str, Any], changed: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Options that make a kernel world with these parameters; None if no options do, as a world may compute them."""
    wanted = {**options, **changed}
    maker = replace(source.makers[0], kwargs=wanted)  # type: ignore[type-var]
    try:
        made = kernel_of(replace(source, makers=(maker,)))
    except Exception:  # noqa: BLE001 - the world's own code refuses them in any way
        return None
    if made is None or any(made.world.values.get(name) != value for name, value in changed.items()):
        return None
    return wanted


def world_with(world: KernelWorld, changed: Mapping[str, Any]) -> EnvFromWorld:
    """The world itself, with other values of some parameters; the engine's own stays as it is."""
    other = copy.copy(world)
    other.values = {**world.values, **changed}
    return EnvFromWorld(other)
