"""Worlds that are objects of a Python session: an env, a vector env, a lambda, a class in a notebook.

A run records a world by a name that another process can find. What has no such name is recorded as "object:NAME": such
a run can be trained, loaded, and resumed in Python with the object, but not from the shell.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from rookery.engine.engine import Engine
from rookery.engine.env_factory import EnvFactory, RegisteredEnv, resolve
from rookery.errors import WorldError
from rookery.training.resolve.world_choice import OBJECT, name_of_object

# What says how an env was made and shown, and is no option of the world.
OF_THE_CALL = ("num_envs", "render_mode", "vector_kwargs", "vectorization_mode", "wrappers")


@dataclass(frozen=True)
class SessionWorld:
    """How a run records a world that the user gave as an object, and what makes its envs."""

    name: str  # an id, "file.py:MyEnv" or "object:NAME"
    source: Any = None  # what the engine takes; None if the name is all it takes
    num_envs: int | None = None  # of a vector env
    options: dict[str, Any] | None = None  # of the world


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
    """The world of an env, a vector env, an EnvSpec, a class or a function."""
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


def _of_env(env: gym.Env) -> SessionWorld:
    """An env that Gymnasium can make again is made again; of others there are copies."""
    spec = env.spec
    if spec is not None and all(wrapper.kwargs is not None for wrapper in spec.additional_wrappers):
        return _of_spec(spec)
    title = _title(type(env.unwrapped))
    return SessionWorld(f"{OBJECT}{title}", EnvFactory((EnvCopies(env),), title, endless=True))


def _of_spec(spec: EnvSpec, kwargs: Mapping[str, Any] | None = None) -> SessionWorld:
    """By its id, with the options that differ from the registered ones, if that is all it takes."""
    known = gym.registry.get(spec.id)
    if known is None or known.entry_point != spec.entry_point or spec.additional_wrappers:
        return SessionWorld(f"{OBJECT}{_plain(spec.id)}-wrapped", spec)
    own = {**spec.kwargs, **(kwargs or {}), "max_episode_steps": spec.max_episode_steps}
    usual = {**known.kwargs, "max_episode_steps": known.max_episode_steps}
    changed = {key: value for key, value in own.items() if key not in OF_THE_CALL and usual.get(key) != value}
    return SessionWorld(spec.id, options=changed)


def _of_vector_env(envs: gym.vector.VectorEnv) -> SessionWorld:
    """As many envs, made as the first one is."""
    inner: Any = envs.unwrapped
    spec = getattr(inner, "spec", None)
    if isinstance(inner, Engine):
        found = _of_factory(inner.source)
    elif isinstance(spec, EnvSpec) and not spec.kwargs.get("wrappers"):  # made by gymnasium.make_vec
        found = _of_spec(spec)
    elif getattr(inner, "env_fns", None):
        found = session_world(next(iter(inner.env_fns)))
    else:
        raise WorldError(
            f"{envs} does not say how its envs are made: give the class of the env, or a function that makes one"
        )
    return SessionWorld(found.name, found.source, int(envs.num_envs), found.options)


def _of_factory(source: EnvFactory) -> SessionWorld:
    """Of an engine that rookery has made."""
    maker = source.makers[0]
    if isinstance(maker, RegisteredEnv) and not source.wrappers:
        return _of_spec(maker.spec, maker.kwargs)
    if source.endless:
        return SessionWorld(f"{OBJECT}{_plain(source.name)}", source)
    return SessionWorld(f"{OBJECT}{_plain(source.name)}", replace(source, makers=(maker,), endless=True))


def _title(world: Any) -> str:
    inner = world.func if isinstance(world, functools.partial) else world
    return _plain(getattr(inner, "name", None) or getattr(inner, "__qualname__", type(inner).__name__))


def _plain(name: object) -> str:
    """A name of letters and digits: of a lambda, or a class within a function, its last part."""
    last = str(name).rpartition(".")[2] if "<locals>" in str(name) else str(name)
    return re.sub(r"[^\w.=-]+", "-", last).strip("-") or "env"
