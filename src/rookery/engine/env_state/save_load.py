"""The whole state of one env, out and in again: by `get_state`/`set_state` if it has them, else by pickling it.

A pickle is for live memory alone. What goes to a file is made by `snapshot`, and a pickle in it is refused here.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import cloudpickle
import gymnasium as gym
from gymnasium.utils import EzPickle

from rookery.engine.batch import Columns
from rookery.engine.env_state import snapshot
from rookery.engine.env_state.value_reader import ValueReader
from rookery.engine.env_state.value_writer import ValueWriter
from rookery.engine.env_state.values import Unsaveable
from rookery.engine.env_state.wrapper_chain import wrapper_chain
from rookery.errors import StateError


def save(env: gym.Env, portable: bool = False) -> dict[str, Any]:
    """An exact snapshot of `env`, or a StateError that says why there is none; if `portable`, as arrays and plain
    values."""
    if portable:
        return snapshot.take(env)
    inner: Any = env.unwrapped
    if callable(getattr(inner, "get_state", None)) and callable(getattr(inner, "set_state", None)):
        own = copy.deepcopy(inner.get_state())  # it may be the env's own arrays, which the next step changes
        return {"kind": "state", "state": own, "wrappers": snapshot.take_wrappers(env), "random": _random_state(inner)}
    rebuilt = _rebuilt_from_arguments(env)
    if rebuilt:
        raise StateError(
            f"{rebuilt} is pickled as its constructor arguments alone (EzPickle), so its state would be lost; "
            "give the env get_state() and set_state(state)"
        )
    try:
        return {"kind": "pickle", "bytes": cloudpickle.dumps(env)}
    except Exception as error:
        raise StateError(
            f"{type(inner).__name__} has no get_state/set_state and cannot be pickled ({error}); "
            "give it get_state() and set_state(state)"
        ) from error


def load(env: gym.Env, state: dict[str, Any]) -> gym.Env:
    """Bring `env` to a saved state; returns the env to use from now on."""
    if state["kind"] == "snapshot":
        env.reset(seed=0)  # an env may make its objects only now
        snapshot.restore(env, state)
        return env
    if state["kind"] == "pickle":
        if type(state["bytes"]) is not bytes:  # no file that we read can give us this type
            raise StateError("the state holds a pickle that is not from live memory; it is not opened")
        return pickle.loads(state["bytes"])  # noqa: S301 - live memory of this run, never a file
    inner: Any = env.unwrapped
    if env is not inner:
        env.reset(seed=0)  # a wrapper may make its objects only now
    inner.set_state(copy.deepcopy(state["state"]))  # the env may go on working in it
    if state["random"] is not None:
        inner.np_random.bit_generator.state = state["random"]
    snapshot.restore_wrappers(env, state["wrappers"])
    return env


def save_columns(columns: Columns) -> dict[str, Any]:
    """The observations of all envs, leaf by leaf, as arrays and plain values."""
    tree: dict[str, Any] = {}
    for k, column in enumerate(columns.columns):
        try:
            tree[str(k)] = ValueWriter([]).write(column, rebuilt=True)
        except Unsaveable as inside:
            name = f"observation{columns.leaves[k].name}"
            raise StateError(f"{name} holds a {inside}, which cannot be saved as arrays") from None
    return tree


def load_columns(columns: Columns, tree: dict[str, Any]) -> None:
    for k, column in enumerate(columns.columns):
        column[:] = ValueReader([]).read(tree[str(k)], None)


def save_options(options: dict[int, dict[str, Any]], portable: bool) -> Any:
    """What envs are to be reset with, by row; see `Engine.reset_with`."""
    if not portable:
        return copy.deepcopy(options)
    try:
        return ValueWriter([]).write(options, rebuilt=True)
    except Unsaveable as inside:
        raise StateError(f"reset_with() was given a {inside}, which cannot be saved as arrays") from None


def load_options(saved: Any, portable: bool) -> dict[int, dict[str, Any]]:
    if saved is None:  # a state from before they were saved
        return {}
    return ValueReader([]).read(saved, None) if portable else copy.deepcopy(saved)


def _random_state(inner: Any) -> dict[str, Any] | None:
    generator = getattr(inner, "_np_random", None)
    return None if generator is None else generator.bit_generator.state


def _rebuilt_from_arguments(env: Any) -> str | None:
    for layer in wrapper_chain(env):
        if isinstance(layer, EzPickle) and type(layer).__getstate__ is EzPickle.__getstate__:
            return type(layer).__name__
    return None
