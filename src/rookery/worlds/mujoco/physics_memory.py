"""MuJoCo's models, data and arrays, by their addresses: what a world's functions may read, the calls of MuJoCo as plain
Python, and the memory of a batch.

Compiled code calls the functions of the same names in physics_native.py. Here MuJoCo's Python bindings do the work, so
that an error of MuJoCo is an exception with a line.

An env keeps its state as numbers of its own record. A thread that steps the env writes it into the thread's data, and
reads it back after the step. So a batch of thousands of envs needs as many data as threads, which stay in their caches,
and threads share nothing that is written to.
"""

from __future__ import annotations

import ctypes
import math
from collections import namedtuple
from collections.abc import Iterable, Mapping
from copy import copy
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from rookery.kernel.plain_values import PlainRows
from rookery.kernel.translate import Function, codes, reachable
from rookery.worlds.mujoco.mujoco_library import load

# The state, which is all that is known before a step; the rest follows from it and is up to date after a step.
STATE_FIELDS = (
    "qpos", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat", "userdata",
)  # fmt: skip
# Arrays of accelerations and forces that MuJoCo computes only on request.
FORCE_FIELDS = ("cacc", "cfrc_int", "cfrc_ext")
DATA_FIELDS = (
    *STATE_FIELDS, *FORCE_FIELDS, "qacc", "act_dot", "sensordata", "xpos", "xquat", "xmat", "xipos", "ximat", "xanchor",
    "xaxis", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "cam_xpos", "cam_xmat", "subtree_com", "cdof",
    "cinert", "crb", "cvel", "ten_length", "ten_velocity", "actuator_length", "actuator_velocity", "actuator_force",
    "qfrc_bias", "qfrc_passive", "qfrc_actuator", "qfrc_constraint", "qfrc_smooth", "qacc_smooth",
)  # fmt: skip
OPTION_FIELDS = ("gravity", "wind", "magnetic")  # arrays of `model.opt`


class ArrayField(NamedTuple):
    """An array: its name, shape and dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype


def mentioned(functions: Iterable[Any]) -> set[str]:
    """All names that functions, and those that they call, use for attributes."""
    every = {inner for function in functions for inner in reachable(function)}
    return {name for function in every for code in codes(function.__code__) for name in code.co_names}


def data_fields(data: Any, names: set[str]) -> list[ArrayField]:
    """The arrays of an MjData that are named."""
    return [_field(name, getattr(data, name)) for name in DATA_FIELDS if name in names]


def model_fields(model: Any, names: set[str]) -> list[ArrayField]:
    """The arrays of numbers of an MjModel that are named."""
    found = [(name, model_array(model, name)) for name in sorted(names)]
    return [_field(name, array) for name, array in found if array is not None]


def model_array(model: Any, name: str) -> np.ndarray | None:
    """An array of a model or of its options; None if there is none of this name."""
    array = getattr(model.opt if name in OPTION_FIELDS else model, name, None) if not name.startswith("_") else None
    return array if isinstance(array, np.ndarray) and array.dtype.char in "dfi" else None


def _field(name: str, array: np.ndarray) -> ArrayField:
    return ArrayField(name, array.shape, array.dtype)


def build_views(
    title: str, prefix: str, fields: Iterable[ArrayField], numbers: Mapping[str, float], writable: bool
) -> Any:
    """A function of the scratch record that returns these arrays, whose addresses are its fields `prefix_name`, and
    these numbers, as attributes of one object."""
    scope: dict[str, Any] = {"view": view if writable else read_only_view, "__name__": __name__}
    values = []
    for field in fields:
        scope[f"dtype_{field.name}"] = field.dtype
        values.append(f"view(scratch.{prefix}_{field.name}, {field.shape}, dtype_{field.name})")
    values += [repr(number) for number in numbers.values()]
    scope["Kind"] = record_kind(title, (*(field.name for field in fields), *numbers) or ("nothing",))
    made = ", ".join(values) or "0"
    exec(f"def views(scratch):\n    return Kind({made})", scope)  # noqa: S102 - names of fields, and numbers
    views: Function = scope["views"]
    return views


def build_restore(fields: Iterable[ArrayField]) -> Any:
    """A function of the scratch record that gives these arrays of a thread's model the numbers of the world's model."""
    sizes = {field.name: math.prod(field.shape) * field.dtype.itemsize for field in fields}
    copies = [
        f"    copy_bytes(scratch.mj_model_{name}, scratch.mj_original_{name}, {size})\n" for name, size in sizes.items()
    ]
    scope: dict[str, Any] = {"copy_bytes": copy_bytes, "__name__": __name__}
    exec(f"def restore(scratch):\n{''.join(copies) or '    pass'}", scope)  # noqa: S102 - names of fields, and numbers
    restore: Function = scope["restore"]
    return restore


@lru_cache
def record_kind(title: str, names: tuple[str, ...]) -> Any:
    """A type whose objects have these attributes."""
    return namedtuple(title, names)


OBJECTS: WeakValueDictionary[int, Any] = WeakValueDictionary()  # the models and data of worlds, by their addresses


def view(address: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """The array at an address."""
    return PlainRows(_array(address, shape, dtype))


def read_only_view(address: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """The array at an address, which cannot be written to."""
    array = _array(address, shape, dtype)
    array.flags.writeable = False
    return PlainRows(array)


def _array(address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype).reshape(shape)


def copy_bytes(target: int, source: int, size: int) -> None:
    """`memcpy`: so many bytes from one address to another."""
    ctypes.memmove(target, source, size)


def set_state(model: int, data: int, state: int, size: int, kind: int) -> None:
    """`mj_setState`: the state from the array at the address `state`."""
    load().package.mj_setState(OBJECTS[model], OBJECTS[data], _array(state, (size,), "f8"), kind)


def get_state(model: int, data: int, state: int, size: int, kind: int) -> None:
    """`mj_getState`: the state into the array at the address `state`."""
    load().package.mj_getState(OBJECTS[model], OBJECTS[data], _array(state, (size,), "f8"), kind)


def reset_data(model: int, data: int) -> None:
    """`mj_resetData`: the initial state of the model."""
    load().package.mj_resetData(OBJECTS[model], OBJECTS[data])


def forward(model: int, data: int) -> int:
    """`mj_forward`: everything that follows from the state. Returns 0; compiled code, 1 if MuJoCo failed."""
    load().package.mj_forward(OBJECTS[model], OBJECTS[data])
    return 0


def advance(model: int, data: int, steps: int) -> int:
    """`mj_step`, as often as `steps`. Returns 0; compiled code, 1 if MuJoCo failed."""
    load().package.mj_step(OBJECTS[model], OBJECTS[data], nstep=steps)
    return 0


def post_constraint(model: int, data: int) -> int:
    """`mj_rnePostConstraint`: accelerations, and forces between bodies. Returns 0; compiled code, 1 if it failed."""
    load().package.mj_rnePostConstraint(OBJECTS[model], OBJECTS[data])
    return 0


WORDS = ("model", "data", "buffer", "warnings")  # addresses in the scratch record, before those of arrays


def address_fields(
    data: Iterable[ArrayField], model: Iterable[ArrayField], configured: Iterable[ArrayField]
) -> dict[str, str]:
    """The fields of a scratch record: addresses. Of arrays that are configured, also those of the original ones."""
    kinds = {"data": data, "model": model, "original": configured}
    names = [*WORDS, *(f"{kind}_{field.name}" for kind, fields in kinds.items() for field in fields)]
    return {f"mj_{name}": "i8" for name in names}


class SimulationSlots:
    """One MjData per scratch record, and one MjModel, if worlds write to it. They live as long as this object."""

    def __init__(self, package: Any, model: Any, scratch: np.ndarray, state_size: int, own_models: bool) -> None:
        self._kept: list[Any] = []
        self._original = model
        for record in scratch:
            here = copy(model) if own_models else model
            data, buffer = package.MjData(here), np.zeros(state_size)
            self._kept.append((here, data, buffer))
            OBJECTS[here._address], OBJECTS[data._address] = here, data
            for name in scratch.dtype.names or ():
                if name.startswith("mj_"):
                    record[name] = self._address(name.removeprefix("mj_"), here, data, buffer)

    def _address(self, name: str, model: Any, data: Any, buffer: np.ndarray) -> int:
        if name in ("model", "data"):
            return (model if name == "model" else data)._address
        if name == "buffer":
            return buffer.ctypes.data
        if name == "warnings":
            return data.warning.number.ctypes.data
        kind, _, array = name.partition("_")
        models = {"model": model, "original": self._original}
        found = getattr(data, array) if kind == "data" else model_array(models[kind], array)
        assert found is not None
        return found.ctypes.data
