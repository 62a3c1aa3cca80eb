"""The state of one env, saved and loaded.

In live memory it is what the env's own `get_state` returns, or a pickle of the env. For a file it is a snapshot: every
attribute of the bare env and of each wrapper, and the objects they refer to, as a tree of arrays and plain values.
Loading a snapshot needs a new env of the same kind that was reset: it keeps its own objects, spaces and functions, and
gets their contents. State outside of the env's own objects (class attributes, globals, C libraries) is not saved.
"""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Iterator
from typing import Any

import cloudpickle
import gymnasium as gym
from gymnasium.utils import EzPickle

from rookery.console import printable
from rookery.engine.batch import Columns
from rookery.engine.value_tree import KEPT, Unsaveable, ValueReader, ValueWriter, attributes
from rookery.errors import StateError

# Attributes that say how an env was made, or how it is drawn, but do not decide its next steps.
CONSTANT = {"env", "spec", "_cached_spec", "metadata", "render_mode", "_saved_kwargs", "np_random_seed"}
PICTURES = {"screen", "screen_surface", "window", "window_surface", "surf", "clock", "viewer", "font", "renderer"}
PICTURES |= {"mujoco_renderer", "game_renderer"}
DRAWING = {"pygame", "PIL", "matplotlib", "glfw", "OpenGL", "tkinter", "cv2"}
TABLES = {("TaxiEnv", "P"), ("CliffWalkingEnv", "P")}  # made from the arguments, only read, and 80 ms to write
CLOCKS = {"episode_start_time"}  # readings of perf_counter, which have no meaning in another process
ADVICE = "give the env get_state() and set_state(state)"


def wrapper_chain(env: Any) -> Iterator[Any]:
    """Every wrapper of `env`, outermost first, then the bare env."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env
    yield env


def save(env: gym.Env, portable: bool = False) -> dict[str, Any]:
    """The exact state of `env`, or a StateError that says why it cannot be saved; if `portable`, as arrays and plain
    values, fit for a file."""
    inner: Any = env.unwrapped
    if portable:
        return {"kind": "snapshot", **_save_layers(env, bare=True)}
    if _has_own_state(inner):
        own = copy.deepcopy(inner.get_state())  # it may be the env's own arrays, which the next step changes
        generator = getattr(inner, "_np_random", None)
        bits = None if generator is None else generator.bit_generator.state
        return {"kind": "state", "state": own, "wrappers": _save_layers(env, bare=False), "random": bits}
    for layer in wrapper_chain(env):
        if isinstance(layer, EzPickle) and type(layer).__getstate__ is EzPickle.__getstate__:
            raise StateError(
                f"{type(layer).__name__} is pickled as its constructor arguments alone (EzPickle), so its state would "
                f"be lost; {ADVICE}"
            )
    try:
        return {"kind": "pickle", "bytes": cloudpickle.dumps(env)}
    except Exception as error:
        name = type(inner).__name__
        raise StateError(f"{name} has no get_state/set_state and cannot be pickled ({error}); {ADVICE}") from error


def load(env: gym.Env, state: dict[str, Any]) -> gym.Env:
    """Bring `env` to a saved state; returns the env to use from now on."""
    if state["kind"] == "pickle":
        if type(state["bytes"]) is not bytes:  # a type that no file of ours can hold
            raise StateError("the state holds a pickle that is not from live memory; it is not opened")
        return pickle.loads(state["bytes"])  # noqa: S301 - live memory of this run, never a file
    inner: Any = env.unwrapped
    if state["kind"] == "snapshot" or env is not inner:
        env.reset(seed=0, options=None)  # an env or a wrapper may create its objects only now
    if state["kind"] == "snapshot":
        _load_layers(env, state)
        return env
    inner.set_state(copy.deepcopy(state["state"]))  # the env may continue to work in it
    if state["random"] is not None:
        inner.np_random.bit_generator.state = state["random"]
    _load_layers(env, state["wrappers"])
    return env


def save_columns(columns: Columns) -> dict[str, Any]:
    """The observations of all envs, leaf by leaf, as arrays and plain values."""
    return {
        str(k): _save_value(column, f"observation{columns.leaves[k].name} holds")
        for k, column in enumerate(columns.columns)
    }


def load_columns(columns: Columns, tree: dict[str, Any]) -> None:
    for k, column in enumerate(columns.columns):
        column[:] = ValueReader().read(tree[str(k)])


def save_options(options: dict[int, dict[str, Any]], portable: bool) -> Any:
    """The options of `Engine.reset_with`, by row."""
    return _save_value(options, "reset_with() was given") if portable else copy.deepcopy(options)


def load_options(saved: Any, portable: bool) -> dict[int, dict[str, Any]]:
    if saved is None:  # a state of a version that did not save them
        return {}
    return ValueReader().read(saved) if portable else copy.deepcopy(saved)


def _save_value(value: Any, where: str) -> Any:
    try:
        return ValueWriter().write(value, standalone=True)
    except Unsaveable as inside:
        raise StateError(f"{where} a {inside}, which cannot be saved as arrays") from None


# --- an env and its wrappers, layer by layer ------------------------------------------------------------------------


def _save_layers(env: gym.Env, bare: bool) -> dict[str, Any]:
    """The attributes of all wrappers and, if `bare`, the state of the bare env."""
    layers = list(wrapper_chain(env))
    writer = ValueWriter(layers)
    saved: dict[str, Any] = {}
    for i, layer in enumerate(layers if bare else layers[:-1]):
        own = _own_state(layer, writer) if layer is layers[-1] else None
        saved[str(i)] = own or {"attributes": _save_attributes(layer, writer)}
    if bare and writer.overlapping:
        raise StateError(f"arrays of {type(env.unwrapped).__name__} share memory, which cannot be saved; {ADVICE}")
    return {"classes": _classes(layers), "layers": saved}


def _load_layers(env: gym.Env, tree: dict[str, Any]) -> None:
    layers = list(wrapper_chain(env))
    if tree["classes"] != _classes(layers):
        made_of = printable(" in ".join(reversed(tree["classes"])))
        raise StateError(f"the state was saved of {made_of}, this env is {' in '.join(reversed(_classes(layers)))}")
    reader = ValueReader(layers)
    for i in range(len(tree["layers"])):
        layer, saved = layers[i], tree["layers"][str(i)]
        if "state" in saved:
            layer.set_state(reader.read(saved["state"]))
        for name, part in (saved["random"] if "state" in saved else saved["attributes"]).items():
            value = reader.read(part, getattr(layer, name, None))
            setattr(layer, name, time.perf_counter() - value if name in CLOCKS else value)


def _has_own_state(bare: Any) -> bool:
    return callable(getattr(bare, "get_state", None)) and callable(getattr(bare, "set_state", None))


def _own_state(bare: Any, writer: ValueWriter) -> dict[str, Any] | None:
    """What the env's own `get_state` returns, if it has one and it can be written as a tree."""
    if not _has_own_state(bare):
        return None
    try:
        state = writer.write(bare.get_state(), standalone=True)
    except Unsaveable:
        return None
    return {"state": state, "random": {"_np_random": writer.write(getattr(bare, "_np_random", None))}}


def _save_attributes(layer: Any, writer: ValueWriter) -> dict[str, Any]:
    try:
        found = attributes(layer)
    except Unsaveable:
        raise StateError(f"{type(layer).__name__} keeps state outside of its attributes; {ADVICE}") from None
    drawing = getattr(layer, "render_mode", None) is not None
    saved = {}
    for name, value in found.items():
        if name in CONSTANT or (type(layer).__name__, name) in TABLES or isinstance(value, KEPT):
            continue
        if value is None and name in PICTURES:
            continue
        try:
            saved[name] = writer.write(time.perf_counter() - value if name in CLOCKS else value)
        except Unsaveable as inside:
            if drawing and (name in PICTURES or type(value).__module__.partition(".")[0] in DRAWING):
                continue
            detail = "" if inside.value is value else f" (it holds a {type(inside.value).__name__})"
            raise StateError(
                f"attribute `{name}` of {type(layer).__name__} is a {type(value).__name__}, which cannot be saved as "
                f"arrays{detail}; {ADVICE}"
            ) from None
    return saved


def _classes(layers: list[Any]) -> list[str]:
    return [type(layer).__name__ for layer in layers]
