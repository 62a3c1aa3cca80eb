"""Trees to Python values; see `values`."""

from __future__ import annotations

import enum
import random
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import Space

from rookery.engine.env_state.values import (
    GENERATORS,
    MAPPINGS,
    PLAIN,
    SEQUENCES,
    array_in,
    class_name,
    copied_state,
    flat_spaces,
    python_random_in,
)
from rookery.errors import StateError


class ValueReader:
    """Turns trees into values again, meeting them in the order in which they were written."""

    def __init__(self, known: Sequence[Any]) -> None:
        self._met: list[Any] = list(known)
        self._filled = {id(item) for item in known}

    def read(self, tree: Any, live: Any) -> Any:
        """The value of `tree`; `live` is what the fresh env has in its place."""
        if type(tree) in PLAIN:
            return tree
        if isinstance(tree, np.ndarray) or tree["kind"] == "array":
            return self._meet(array_in(tree))
        read = getattr(self, f"_read_{tree['kind']}", None)
        if read is not None:
            return read(tree, live)
        if tree["kind"] in SEQUENCES:
            return self._read_sequence(tree, live)
        if tree["kind"] in MAPPINGS:
            return self._read_mapping(tree, live)
        raise StateError(f"the state holds a {tree['kind']!r}, which this rookery does not know")

    def _read_kept(self, tree: Any, live: Any) -> Any:
        return live

    def _read_scalar(self, tree: Any, live: Any) -> Any:
        return array_in(tree["value"])[()]

    def _read_bytes(self, tree: Any, live: Any) -> bytes:
        return tree["value"].tobytes()

    def _read_bytearray(self, tree: Any, live: Any) -> bytearray:
        return bytearray(tree["value"].tobytes())

    def _read_path(self, tree: Any, live: Any) -> Path:
        return Path(tree["value"])

    def _read_range(self, tree: Any, live: Any) -> range:
        return range(*tree["value"])

    def _read_enum(self, tree: Any, live: Any) -> Any:
        if not isinstance(live, enum.Enum):
            raise StateError(f"the state holds {tree['name']!r} of an Enum, but the fresh env has {live!r} there")
        return type(live)[tree["name"]]

    def _read_again(self, tree: Any, live: Any) -> Any:
        return self._met[tree["number"]]

    def _read_sequence(self, tree: Any, live: Any) -> Any:
        kind = tree["kind"]
        lives = list(live) if isinstance(live, (list, tuple, deque)) else []
        if kind in ("tuple", "frozenset"):
            return SEQUENCES[kind](self._items(tree["items"], lives))
        made: Any = deque(maxlen=tree["maxlen"]) if kind == "deque" else SEQUENCES[kind]()
        self._meet(made)
        fill = made.update if kind == "set" else made.extend
        fill(self._items(tree["items"], lives))
        return made

    def _read_named(self, tree: Any, live: Any) -> Any:
        self._expect(tree, live)
        return type(live)._make(self._items(tree["items"], live))

    def _read_filled(self, tree: Any, live: Any) -> Any:
        self._fill(tree, live)
        keys = self._items(tree["keys"], [])
        values = self._items(tree["values"], [live.get(key) for key in keys])
        live.clear()
        live.update(dict(zip(keys, values, strict=True)))
        return live

    def _read_mapping(self, tree: Any, live: Any) -> Any:
        made: Any = self._meet(MAPPINGS[tree["kind"]]())
        keys = self._items(tree["keys"], [])
        lives = [live.get(key) for key in keys] if isinstance(live, dict) else []
        made.update(zip(keys, self._items(tree["values"], lives), strict=True))
        return made

    def _read_objects(self, tree: Any, live: Any) -> np.ndarray:
        made = self._meet(np.empty(tree["shape"], object))
        lives = live.ravel().tolist() if isinstance(live, np.ndarray) else []
        for i, item in enumerate(self._items(tree["items"], lives)):
            made.flat[i] = item
        return made

    def _read_generator(self, tree: Any, live: Any) -> np.random.Generator:
        bits = GENERATORS[tree["state"]["bit_generator"]]()
        bits.state = copied_state(tree["state"])
        return self._meet(np.random.Generator(bits))

    def _read_random_state(self, tree: Any, live: Any) -> np.random.RandomState:
        made = np.random.RandomState()
        made.set_state(copied_state(tree["state"]))
        return self._meet(made)

    def _read_random(self, tree: Any, live: Any) -> random.Random:
        made = random.Random()
        made.setstate(python_random_in(tree))
        return self._meet(made)

    def _read_space(self, tree: Any, live: Any) -> Any:
        self._meet(live)
        parts = flat_spaces(live) if isinstance(live, Space) else []
        generators = self._items(tree["generators"], [])
        if len(parts) != len(generators):
            raise StateError(f"the state holds a space of {len(generators)} parts, the fresh env has {live!r} there")
        for space, generator in zip(parts, generators, strict=True):
            space._np_random = generator
        return live

    def _read_object(self, tree: Any, live: Any) -> Any:
        self._fill(tree, live)
        for name, part in tree["attributes"].items():
            object.__setattr__(live, name, self.read(part, getattr(live, name, None)))  # also of frozen dataclasses
        return live

    def _expect(self, tree: Any, live: Any) -> None:
        if class_name(live) != tree["class"]:
            raise StateError(f"the state holds a {tree['class']!r}, but the fresh env has {live!r} in its place")

    def _fill(self, tree: Any, live: Any) -> None:
        """Take an object of the fresh env for one that was saved, but not for two of them."""
        self._expect(tree, live)
        if id(live) in self._filled:
            raise StateError(f"the state holds two objects of {tree['class']} where the fresh env has one twice")
        self._filled.add(id(live))
        self._meet(live)

    def _items(self, items: Any, lives: Sequence[Any]) -> list[Any]:
        trees = items if isinstance(items, list) else list(items.values())
        return [self.read(tree, lives[i] if i < len(lives) else None) for i, tree in enumerate(trees)]

    def _meet(self, value: Any) -> Any:
        self._met.append(value)
        return value
