"""Python values to trees; see `values`."""

from __future__ import annotations

import enum
import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import PurePath
from typing import Any

import numpy as np
from gymnasium import Space

from rookery.engine.env_state.values import (
    GENERATORS,
    KEPT,
    MAPPINGS,
    PLAIN,
    Unsaveable,
    array_out,
    attributes,
    class_name,
    copied_state,
    flat_spaces,
    owner,
    python_random_out,
)


class ValueWriter:
    """Turns values into trees. `known` objects, and those met before, are written as references."""

    def __init__(self, known: Sequence[Any]) -> None:
        self._met: dict[int, int] = {}
        self._alive: list[Any] = []  # so that no other object gets the id of one that was met
        self._arrays: list[np.ndarray] = []  # that can be changed
        self._rebuilt = False
        for item in known:
            self._meet(item)

    @property
    def overlapping(self) -> bool:
        """Whether one array written is a view of another: restored, they would no longer change together."""
        by_owner: dict[int, list[np.ndarray]] = {}
        for array in self._arrays:
            by_owner.setdefault(owner(array), []).append(array)
        return any(np.shares_memory(a, b) for family in by_owner.values() for a, b in combinations(family, 2))

    def write(self, value: Any, rebuilt: bool = False) -> Any:
        """The tree for `value`, or Unsaveable. If `rebuilt`, it must be readable without a value in its place."""
        self._rebuilt, before = rebuilt, len(self._alive)
        try:
            return self._write(value)
        except Unsaveable:
            for item in self._alive[before:]:
                del self._met[id(item)]
            del self._alive[before:]
            raise

    def _write(self, value: Any) -> Any:
        if type(value) in PLAIN:
            return value
        if isinstance(value, KEPT):
            return self._only_in_place({"kind": "kept"}, value)
        if isinstance(value, np.generic):
            return {"kind": "scalar", "value": array_out(np.asarray(value))}
        if isinstance(value, (bytes, bytearray)):
            return {"kind": type(value).__name__, "value": np.frombuffer(value, np.uint8)}
        if type(value) is tuple or type(value) is frozenset:
            return {"kind": type(value).__name__, "items": self._items(value)}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._only_in_place(
                {"kind": "named", "class": class_name(value), "items": self._items(value)}, value
            )
        if isinstance(value, PurePath):
            return {"kind": "path", "value": str(value)}
        if isinstance(value, range):
            return {"kind": "range", "value": [value.start, value.stop, value.step]}
        if isinstance(value, enum.Enum):
            return self._only_in_place({"kind": "enum", "name": value.name}, value)
        if id(value) in self._met:
            return {"kind": "again", "number": self._met[id(value)]}
        self._meet(value)
        return self._write_new(value)

    def _write_new(self, value: Any) -> Any:
        """A value that could be referred to again."""
        if type(value) is np.ndarray:
            return self._array(value)
        if type(value) in (list, set):
            return {"kind": type(value).__name__, "items": self._items(value)}
        if type(value) is deque:
            return {"kind": "deque", "items": self._items(value), "maxlen": value.maxlen}
        if type(value) in MAPPINGS.values():
            kind = "dict" if type(value) is dict else "ordered"
            return {"kind": kind, "keys": self._items(value), "values": self._items(value.values())}
        if type(value) in (defaultdict, Counter):
            parts = {"keys": self._items(value), "values": self._items(value.values())}
            return self._only_in_place({"kind": "filled", "class": class_name(value), **parts}, value)
        if type(value) is np.random.Generator and type(value.bit_generator).__name__ in GENERATORS:
            return {"kind": "generator", "state": copied_state(value.bit_generator.state)}
        if type(value) is np.random.RandomState:
            return {"kind": "random_state", "state": copied_state(value.get_state(legacy=False))}
        if type(value) is random.Random:
            return {"kind": "random", **python_random_out(value.getstate())}
        if isinstance(value, Space):
            generators = [space._np_random for space in flat_spaces(value)]
            return self._only_in_place({"kind": "space", "generators": self._items(generators)}, value)
        parts = {name: self._write(part) for name, part in attributes(value).items() if not isinstance(part, KEPT)}
        return self._only_in_place({"kind": "object", "class": class_name(value), "attributes": parts}, value)

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

    def _only_in_place(self, tree: dict[str, Any], value: Any) -> dict[str, Any]:
        if self._rebuilt:
            raise Unsaveable(value)
        return tree

    def _meet(self, value: Any) -> None:
        self._met[id(value)] = len(self._met)
        self._alive.append(value)
