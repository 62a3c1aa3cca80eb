"""Python values as trees of arrays and plain values, and back, without pickle.

Numbers, strings, None and arrays stand for themselves; anything else is a dict with a `kind`. An object of a Python
class is written as its attributes, and read into the object that the new env has in its place: no class is looked up
by a name from a file. What is referred to twice is one object again after reading.
"""

from __future__ import annotations

import ast
import enum
import functools
import logging
import random
import re
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from copyreg import _slotnames  # type: ignore[attr-defined]
from itertools import combinations
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.envs.registration import EnvSpec

from rookery.errors import StateError

PLAIN = (bool, int, float, str, type(None))
KEPT = (  # as the new env has it: code, and descriptions that do not change
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type, functools.partial,
    np.ufunc, np.dtype, EnvSpec, logging.Logger, logging.LoggerAdapter, re.Pattern,
)  # fmt: skip
GENERATORS = {name: getattr(np.random, name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")}
MAPPINGS = {"dict": dict, "ordered": OrderedDict}


class Unsaveable(Exception):
    """There is no exact form for this value."""

    def __init__(self, value: Any) -> None:
        super().__init__(type(value).__name__)
        self.value = value


# --- arrays, generators, spaces, attributes -------------------------------------------------------------------------


def array_out(array: np.ndarray) -> Any:
    """Numbers as they are; text, records and the like as bytes with their dtype."""
    if array.dtype.hasobject:
        raise Unsaveable(array)
    if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8 and array.dtype.isnative:
        return array.copy()
    dtype, value = repr(np.lib.format.dtype_to_descr(array.dtype)), np.frombuffer(array.tobytes(), np.uint8)
    return {"kind": "array", "dtype": dtype, "shape": list(array.shape), "value": value}


def array_in(tree: Any) -> np.ndarray:
    if isinstance(tree, np.ndarray):
        return tree.copy()
    dtype = np.lib.format.descr_to_dtype(ast.literal_eval(tree["dtype"]))
    return np.frombuffer(tree["value"].tobytes(), dtype).reshape(tree["shape"]).copy()


def python_random_out(state: tuple[Any, ...]) -> dict[str, Any]:
    """The state of a `random.Random` as a tree."""
    version, words, gauss = state
    return {"version": version, "words": np.array(words, np.uint32), "gauss": gauss}


def python_random_in(tree: dict[str, Any]) -> tuple[Any, ...]:
    return tree["version"], tuple(tree["words"].tolist()), tree["gauss"]


def copied_state(state: Any) -> Any:
    """A tree such as the state of one of NumPy's generators, with copies of its arrays."""
    return {
        name: copied_state(part) if isinstance(part, dict) else part.copy() if isinstance(part, np.ndarray) else part
        for name, part in state.items()
    }


def _generator_out(value: Any) -> dict[str, Any] | None:
    if type(value) is np.random.Generator and type(value.bit_generator).__name__ in GENERATORS:
        return {"kind": "generator", "state": copied_state(value.bit_generator.state)}
    if type(value) is np.random.RandomState:
        return {"kind": "random_state", "state": copied_state(value.get_state(legacy=False))}
    if type(value) is random.Random:
        return {"kind": "random", **python_random_out(value.getstate())}
    return None


def _generator_in(tree: dict[str, Any]) -> Any:
    if tree["kind"] == "generator":
        bits = GENERATORS[tree["state"]["bit_generator"]]()
        bits.state = copied_state(tree["state"])
        return np.random.Generator(bits)
    made: Any = random.Random() if tree["kind"] == "random" else np.random.RandomState()
    if tree["kind"] == "random":
        made.setstate(python_random_in(tree))
    else:
        made.set_state(copied_state(tree["state"]))
    return made


def _nested_spaces(space: Space) -> list[Space]:
    """A space and those inside it; each has a generator of its own."""
    inside: Iterable[Space] = ()
    if isinstance(space, spaces.Dict):
        inside = space.spaces.values()
    elif isinstance(space, (spaces.Tuple, spaces.OneOf)):
        inside = space.spaces
    return [space, *(part for child in inside for part in _nested_spaces(child))]


def attributes(value: Any) -> dict[str, Any]:
    """All that an object of a Python class holds; Unsaveable if it holds more, as one from a C library does."""
    kind = type(value)
    if kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__:
        raise Unsaveable(value)
    slots = _slotnames(kind)
    words = (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0) + len(slots)
    if kind.__itemsize__ or kind.__basicsize__ > object.__basicsize__ + words * np.intp().itemsize:
        raise Unsaveable(value)  # its memory has room for more than Python's attributes
    return {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots if hasattr(value, name)}}


# Values that refer to nothing else: the kind, how its `value` is written, and how it is read.
SIMPLE: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    np.generic: ("scalar", lambda value: array_out(np.asarray(value)), lambda saved: array_in(saved)[()]),
    bytes: ("bytes", lambda value: np.frombuffer(value, np.uint8), lambda saved: saved.tobytes()),
    bytearray: ("bytearray", lambda value: np.frombuffer(value, np.uint8), lambda saved: bytearray(saved.tobytes())),
    PurePath: ("path", str, Path),
    range: ("range", lambda value: [value.start, value.stop, value.step], lambda saved: range(*saved)),
}
SIMPLE_READERS = {kind: read for kind, _, read in SIMPLE.values()}


# --- writing --------------------------------------------------------------------------------------------------------


class ValueWriter:
    """Turns values into trees. `known` objects, and those written before, are written as references."""

    def __init__(self, known: Sequence[Any] = ()) -> None:
        self._numbers: dict[int, int] = {}  # of the objects written so far, by id
        self._alive: list[Any] = []  # so that no other object gets the id of one of them
        self._arrays: list[np.ndarray] = []  # writeable ones
        self._standalone = False
        for item in known:
            self._remember(item)

    @property
    def overlapping(self) -> bool:
        """Whether one array is a view of another: after reading, they would no longer change together."""
        by_owner: dict[int, list[np.ndarray]] = {}
        for array in self._arrays:
            owner: Any = array
            while isinstance(owner, np.ndarray) and owner.base is not None:
                owner = owner.base
            by_owner.setdefault(id(owner), []).append(array)
        return any(np.shares_memory(a, b) for family in by_owner.values() for a, b in combinations(family, 2))

    def write(self, value: Any, standalone: bool = False) -> Any:
        """The tree for `value`, or Unsaveable. If `standalone`, it must be readable without an object in its place."""
        self._standalone, before = standalone, len(self._alive)
        try:
            return self._write(value)
        except Unsaveable:
            for item in self._alive[before:]:
                del self._numbers[id(item)]
            del self._alive[before:]
            raise

    def _write(self, value: Any) -> Any:
        if type(value) in PLAIN:
            return value
        if isinstance(value, KEPT):
            return self._in_place({"kind": "kept"}, value)
        for base, (kind, out, _) in SIMPLE.items():
            if isinstance(value, base):
                return {"kind": kind, "value": out(value)}
        if type(value) is tuple or type(value) is frozenset:
            return {"kind": type(value).__name__, "items": self._items(value)}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._in_place({"kind": "named", "class": _class(value), "items": self._items(value)}, value)
        if isinstance(value, enum.Enum):
            return self._in_place({"kind": "enum", "name": value.name}, value)
        if id(value) in self._numbers:
            return {"kind": "again", "number": self._numbers[id(value)]}
        self._remember(value)
        return self._write_new(value)

    def _write_new(self, value: Any) -> Any:
        """A value that may be referred to again."""
        if type(value) is np.ndarray:
            return self._array(value)
        if type(value) in (list, set):
            return {"kind": type(value).__name__, "items": self._items(value)}
        if type(value) is deque:
            return {"kind": "deque", "items": self._items(value), "maxlen": value.maxlen}
        if type(value) in (dict, OrderedDict, defaultdict, Counter):
            parts = {"keys": self._items(value), "values": self._items(value.values())}
            if type(value) in MAPPINGS.values():
                return {"kind": "dict" if type(value) is dict else "ordered", **parts}
            return self._in_place({"kind": "filled", "class": _class(value), **parts}, value)
        generator = _generator_out(value)
        if generator is not None:
            return generator
        if isinstance(value, Space):
            generators = self._items([space._np_random for space in _nested_spaces(value)])
            return self._in_place({"kind": "space", "generators": generators}, value)
        parts = {name: self._write(part) for name, part in attributes(value).items() if not isinstance(part, KEPT)}
        return self._in_place({"kind": "object", "class": _class(value), "attributes": parts}, value)

    def _items(self, items: Iterable[Any]) -> Any:
        """Plain values as a list; a tree has no lists of anything else."""
        written = [self._write(item) for item in items]
        if all(type(item) in PLAIN for item in written):
            return written
        return {str(i): item for i, item in enumerate(written)}

    def _array(self, array: np.ndarray) -> Any:
        if array.flags.writeable:
            self._arrays.append(array)
        if array.dtype.hasobject:
            return {"kind": "objects", "shape": list(array.shape), "items": self._items(array.ravel().tolist())}
        return array_out(array)

    def _in_place(self, tree: dict[str, Any], value: Any) -> dict[str, Any]:
        if self._standalone:
            raise Unsaveable(value)
        return tree

    def _remember(self, value: Any) -> None:
        self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)


# --- reading --------------------------------------------------------------------------------------------------------


class ValueReader:
    """Turns trees into values again. It meets objects in the order in which they were written."""

    def __init__(self, known: Sequence[Any] = ()) -> None:
        self._objects: list[Any] = list(known)
        self._filled = {id(item) for item in known}

    def read(self, tree: Any, live: Any = None) -> Any:
        """The value of `tree`; `live` is what the new env has in its place."""
        if type(tree) in PLAIN:
            return tree
        kind = "array" if isinstance(tree, np.ndarray) else tree["kind"]
        if kind in SIMPLE_READERS:
            return SIMPLE_READERS[kind](tree["value"])
        if kind not in READERS:
            raise StateError(f"the state holds a {kind!r}, which this version of rookery does not know")
        return READERS[kind](self, tree, live)

    def _enum(self, tree: Any, live: Any) -> Any:
        if not isinstance(live, enum.Enum):
            raise StateError(f"the state holds {tree['name']!r} of an Enum, but the new env has {live!r} there")
        return type(live)[tree["name"]]

    def _immutable(self, tree: Any, live: Any) -> Any:
        items = self._items(tree["items"], list(live) if isinstance(live, (list, tuple, deque)) else ())
        return tuple(items) if tree["kind"] == "tuple" else frozenset(items)

    def _sequence(self, tree: Any, live: Any) -> Any:
        kind = tree["kind"]
        made: Any = deque(maxlen=tree["maxlen"]) if kind == "deque" else {"list": list, "set": set}[kind]()
        self._remember(made)
        fill = made.update if kind == "set" else made.extend
        fill(self._items(tree["items"], list(live) if isinstance(live, (list, tuple, deque)) else ()))
        return made

    def _mapping(self, tree: Any, live: Any) -> Any:
        made: Any = self._remember(MAPPINGS[tree["kind"]]())
        keys = self._items(tree["keys"])
        lives = [live.get(key) for key in keys] if isinstance(live, dict) else ()
        made.update(zip(keys, self._items(tree["values"], lives), strict=True))
        return made

    def _named(self, tree: Any, live: Any) -> Any:
        self._expect(tree, live)
        return type(live)._make(self._items(tree["items"], live))

    def _fill_mapping(self, tree: Any, live: Any) -> Any:
        self._fill(tree, live)
        keys = self._items(tree["keys"])
        values = self._items(tree["values"], [live.get(key) for key in keys])
        live.clear()
        live.update(dict(zip(keys, values, strict=True)))
        return live

    def _object_array(self, tree: Any, live: Any) -> np.ndarray:
        made = self._remember(np.empty(tree["shape"], object))
        lives = live.ravel().tolist() if isinstance(live, np.ndarray) else ()
        for i, item in enumerate(self._items(tree["items"], lives)):
            made.flat[i] = item
        return made

    def _space(self, tree: Any, live: Any) -> Any:
        self._remember(live)
        parts = _nested_spaces(live) if isinstance(live, Space) else []
        generators = self._items(tree["generators"])
        if len(parts) != len(generators):
            raise StateError(f"the state holds a space of {len(generators)} parts, the new env has {live!r} there")
        for space, generator in zip(parts, generators, strict=True):
            space._np_random = generator
        return live

    def _object(self, tree: Any, live: Any) -> Any:
        self._fill(tree, live)
        for name, part in tree["attributes"].items():
            object.__setattr__(live, name, self.read(part, getattr(live, name, None)))  # also of frozen dataclasses
        return live

    def _expect(self, tree: Any, live: Any) -> None:
        if _class(live) != tree["class"]:
            raise StateError(f"the state holds a {tree['class']!r}, but the new env has {live!r} in its place")

    def _fill(self, tree: Any, live: Any) -> None:
        """Take an object of the new env for one that was saved, but not for two of them."""
        self._expect(tree, live)
        if id(live) in self._filled:
            raise StateError(f"the state holds two objects of {tree['class']} where the new env has one twice")
        self._filled.add(id(live))
        self._remember(live)

    def _items(self, items: Any, lives: Sequence[Any] = ()) -> list[Any]:
        trees = items if isinstance(items, list) else list(items.values())
        return [self.read(tree, lives[i] if i < len(lives) else None) for i, tree in enumerate(trees)]

    def _remember(self, value: Any) -> Any:
        self._objects.append(value)
        return value


READERS: dict[str, Callable[[ValueReader, Any, Any], Any]] = {
    "kept": lambda reader, tree, live: live,
    "again": lambda reader, tree, live: reader._objects[tree["number"]],
    "array": lambda reader, tree, live: reader._remember(array_in(tree)),
    "enum": ValueReader._enum,
    "named": ValueReader._named,
    "filled": ValueReader._fill_mapping,
    "objects": ValueReader._object_array,
    "space": ValueReader._space,
    "object": ValueReader._object,
    **dict.fromkeys(("tuple", "frozenset"), ValueReader._immutable),
    **dict.fromkeys(("list", "set", "deque"), ValueReader._sequence),
    **dict.fromkeys(MAPPINGS, ValueReader._mapping),
    **dict.fromkeys(
        ("generator", "random_state", "random"), lambda reader, tree, live: reader._remember(_generator_in(tree))
    ),
}


def _class(value: Any) -> str:
    return type(value).__qualname__
