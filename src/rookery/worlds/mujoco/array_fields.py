"""The arrays of MuJoCo's data and model that a world's functions may read, and how they get at them."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from rookery.kernel.translate import Function, codes, reachable
from rookery.worlds.mujoco.physics_calls import copy_bytes, read_only_view, view

# The state, which is all that is known before a step; the rest follows from it and is up to date after a step.
STATE_FIELDS = (
    "qpos", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat", "userdata",
)  # fmt: skip
# Arrays of accelerations and forces that MuJoCo computes only if it is asked to.
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
    return namedtuple(title, names)  # type: ignore[misc]
