"""Python values as trees of arrays and plain values, and back.

Numbers, strings, None and arrays stand for themselves; anything else is a dict whose `kind` says what it was. Objects
of Python classes are written as their attributes, and read into the object that is in their place already: no class is
ever looked up by a name from a file. What is referred to twice is one thing again when it was read. `Writer` and
`Reader`, in files of their own, do it; here is what both of them know.
"""

from __future__ import annotations

import ast
import functools
import logging
import re
import types
from collections import OrderedDict, deque
from collections.abc import Iterable
from copyreg import _slotnames  # type: ignore[attr-defined]
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.envs.registration import EnvSpec

PLAIN = (bool, int, float, str, type(None))
KEPT = (  # as the fresh env has it: code, and what describes rather than changes
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type, functools.partial,
    np.ufunc, np.dtype, EnvSpec, logging.Logger, logging.LoggerAdapter, re.Pattern,
)  # fmt: skip
SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "deque": deque}
MAPPINGS = {"dict": dict, "ordered": OrderedDict}
GENERATORS = {name: getattr(np.random, name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")}


class Unsaveable(Exception):
    """There is no exact form for this value."""

    def __init__(self, value: Any) -> None:
        super().__init__(type(value).__name__)
        self.value = value


def attributes(value: Any) -> dict[str, Any]:
    """All that an object of a Python class holds; Unsaveable if there is more to it, as with one from a C library."""
    kind = type(value)
    if kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__:
        raise Unsaveable(value)
    slots = _slotnames(kind)
    words = (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0) + len(slots)
    if kind.__itemsize__ or kind.__basicsize__ > object.__basicsize__ + words * np.intp().itemsize:
        raise Unsaveable(value)  # there is room for more in it than Python's attributes
    return {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots if hasattr(value, name)}}


def python_random_out(state: tuple[Any, ...]) -> dict[str, Any]:
    """The state of a `random.Random` as a tree."""
    version, words, gauss = state
    return {"version": version, "words": np.array(words, np.uint32), "gauss": gauss}


def python_random_in(tree: dict[str, Any]) -> tuple[Any, ...]:
    return tree["version"], tuple(tree["words"].tolist()), tree["gauss"]


def flat_spaces(space: Space) -> list[Space]:
    """A space and those inside it."""
    inside: Iterable[Space] = ()
    if isinstance(space, spaces.Dict):
        inside = space.spaces.values()
    elif isinstance(space, (spaces.Tuple, spaces.OneOf)):
        inside = space.spaces
    return [space, *(part for child in inside for part in flat_spaces(child))]


def array_out(array: np.ndarray) -> Any:
    """Numbers as they are; text, records and the like as bytes with their type."""
    if array.dtype.hasobject:
        raise Unsaveable(array)
    if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8 and array.dtype.isnative:
        return array.copy()
    descr = repr(np.lib.format.dtype_to_descr(array.dtype))
    return {
        "kind": "array",
        "dtype": descr,
        "shape": list(array.shape),
        "value": np.frombuffer(array.tobytes(), np.uint8),
    }


def array_in(tree: Any) -> np.ndarray:
    if isinstance(tree, np.ndarray):
        return tree.copy()
    dtype = np.lib.format.descr_to_dtype(ast.literal_eval(tree["dtype"]))
    return np.frombuffer(tree["value"].tobytes(), dtype).reshape(tree["shape"]).copy()


def owner(array: Any) -> int:
    """What an array and its views have in common."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return id(array)


def copied_state(state: Any) -> Any:
    """A generator's state with arrays of its own."""
    return {
        name: copied_state(part) if isinstance(part, dict) else part.copy() if isinstance(part, np.ndarray) else part
        for name, part in state.items()
    }


def class_name(value: Any) -> str:
    return type(value).__qualname__
