"""A Gymnasium env as a tree of arrays and plain values, without its help and without a pickle.

Every attribute of the bare env and of each wrapper is taken, and the objects they refer to, as long as all of it can be
written down exactly. Restoring needs a fresh env of the same kind that was reset: it keeps its own objects, spaces and
functions, and gets their contents. State outside of the env's own objects (class attributes, globals, C libraries) is
not seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import gymnasium as gym

from rookery.console import printable
from rookery.engine.env_state.value_reader import ValueReader
from rookery.engine.env_state.value_writer import ValueWriter
from rookery.engine.env_state.values import KEPT, Unsaveable, attributes
from rookery.engine.env_state.wrapper_chain import wrapper_chain
from rookery.errors import StateError

# Attributes that say how an env was made, or what it looks like, but not how it goes on.
CONSTANT = {"env", "spec", "_cached_spec", "metadata", "render_mode", "_saved_kwargs", "np_random_seed"}
PICTURES = {"screen", "screen_surface", "window", "window_surface", "surf", "clock", "viewer", "font", "renderer"}
PICTURES |= {"mujoco_renderer", "game_renderer"}
DRAWING = {"pygame", "PIL", "matplotlib", "glfw", "OpenGL", "tkinter", "cv2"}
TABLES = {("TaxiEnv", "P"), ("CliffWalkingEnv", "P")}  # made of the arguments, only read, and 80 ms to write
_ADVICE = "give the env get_state() and set_state(state)"
CLOCKS = {"episode_start_time"}  # readings of perf_counter, which means nothing in another process


def take(env: gym.Env) -> dict[str, Any]:
    """The state of `env`, or a StateError that names the attribute that cannot be saved."""
    layers = list(wrapper_chain(env))
    writer = ValueWriter(layers)
    tree: dict[str, Any] = {"kind": "snapshot", "classes": _classes(layers), "layers": {}}
    for i, layer in enumerate(layers):
        own = _own_state(layer, writer) if layer is layers[-1] else None
        tree["layers"][str(i)] = own or {"attributes": _attributes(layer, writer)}
    if writer.overlapping:
        raise StateError(f"arrays of {type(env.unwrapped).__name__} share memory, which cannot be saved; {_ADVICE}")
    return tree


def restore(env: gym.Env, tree: dict[str, Any]) -> None:
    """Bring `env`, fresh and reset, to the state in `tree`."""
    layers = _layers_as_saved(env, tree)
    reader = ValueReader(layers)
    for i, layer in enumerate(layers):
        saved = tree["layers"][str(i)]
        if "state" in saved:
            layer.set_state(reader.read(saved["state"], None))
            saved = {"attributes": saved["random"]}
        _set_attributes(layer, saved["attributes"], reader)


def take_wrappers(env: gym.Env) -> dict[str, Any]:
    """What the wrappers of `env` hold, for an env that tells its own state; StateError as in `take`."""
    layers = list(wrapper_chain(env))
    writer = ValueWriter(layers)
    attributes = {str(i): _attributes(layer, writer) for i, layer in enumerate(layers[:-1])}
    return {"classes": _classes(layers), "layers": attributes}


def restore_wrappers(env: gym.Env, tree: dict[str, Any]) -> None:
    """Bring the wrappers of `env` to the state in `tree`."""
    layers = _layers_as_saved(env, tree)
    reader = ValueReader(layers)
    for i, layer in enumerate(layers[:-1]):
        _set_attributes(layer, tree["layers"][str(i)], reader)


def _layers_as_saved(env: gym.Env, tree: dict[str, Any]) -> list[Any]:
    layers = list(wrapper_chain(env))
    if tree["classes"] != _classes(layers):
        made = printable(" in ".join(reversed(tree["classes"])))
        raise StateError(f"the state was saved of {made}, this env is {' in '.join(reversed(_classes(layers)))}")
    return layers


def _set_attributes(layer: Any, attributes: dict[str, Any], reader: ValueReader) -> None:
    for name, value in attributes.items():
        now = reader.read(value, getattr(layer, name, None))
        setattr(layer, name, time.perf_counter() - now if name in CLOCKS else now)


def _own_state(bare: Any, writer: ValueWriter) -> dict[str, Any] | None:
    """What the env says of itself, if it does, in a form that can be written down."""
    if not (callable(getattr(bare, "get_state", None)) and callable(getattr(bare, "set_state", None))):
        return None
    try:
        state = writer.write(bare.get_state(), rebuilt=True)
    except Unsaveable:
        return None
    return {"state": state, "random": {"_np_random": writer.write(getattr(bare, "_np_random", None))}}


def _attributes(layer: Any, writer: ValueWriter) -> dict[str, Any]:
    drawing = getattr(layer, "render_mode", None) is not None
    saved = {}
    for name, value in _changing(layer):
        try:
            saved[name] = writer.write(time.perf_counter() - value if name in CLOCKS else value)
        except Unsaveable as inside:
            if drawing and (name in PICTURES or type(value).__module__.partition(".")[0] in DRAWING):
                continue
            detail = "" if inside.value is value else f" (it holds a {type(inside.value).__name__})"
            raise StateError(
                f"attribute `{name}` of {type(layer).__name__} is a {type(value).__name__}, which cannot be saved as "
                f"arrays{detail}; {_ADVICE}"
            ) from None
    return saved


def _changing(layer: Any) -> Iterator[tuple[str, Any]]:
    try:
        mine = attributes(layer)
    except Unsaveable:
        raise StateError(f"{type(layer).__name__} keeps state outside of its attributes; {_ADVICE}") from None
    for name, value in mine.items():
        constant = name in CONSTANT or (type(layer).__name__, name) in TABLES or isinstance(value, KEPT)
        if not constant and not (value is None and name in PICTURES):
            yield name, value


def _classes(layers: list[Any]) -> list[str]:
    return [type(layer).__name__ for layer in layers]
