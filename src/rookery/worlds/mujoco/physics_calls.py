"""What worlds ask of MuJoCo, as plain Python. Compiled code calls the functions of the same names in physics_native.py.

Models, data and arrays are given by their addresses, which are in the scratch record of the thread. Here MuJoCo's
Python bindings do the work, so that an error of MuJoCo is an exception with a line.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from rookery.kernel.plain_values import PlainRows
from rookery.worlds.mujoco.mujoco_library import load

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
