"""Spaces as flat columns: where every leaf of a nested space lives in one block of memory.

A space is a tree; its leaves are arrays (Box, Discrete, MultiBinary, MultiDiscrete), which get a column with one
row per env, or objects (Text, Graph, Sequence, ...), which have no fixed size and are sent as messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rookery.errors import SpaceError

ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
CACHE_LINE = 64


@dataclass(frozen=True)
class SpaceLeaf:
    """One leaf of a space: its place in the tree and, if it is an array, its column's shape and dtype."""

    path: tuple[str | int, ...]
    space: Space
    shape: tuple[int, ...] = ()
    dtype: np.dtype | None = None  # None: an object

    @property
    def name(self) -> str:
        return "".join(f"[{key!r}]" for key in self.path)


def leaves(space: Space, path: tuple[str | int, ...] = ()) -> list[SpaceLeaf]:
    """The leaves of `space` in a fixed order."""
    if isinstance(space, spaces.Dict):
        return [leaf for key, child in space.spaces.items() for leaf in leaves(child, (*path, key))]
    if isinstance(space, spaces.Tuple):
        return [leaf for key, child in enumerate(space.spaces) for leaf in leaves(child, (*path, key))]
    if isinstance(space, ARRAY_SPACES):
        # NumPy's own dtype object: unpickling makes copies, and comparing by identity is faster.
        dtype = np.dtype(np.dtype(space.dtype).str)
        if dtype.hasobject:
            return [SpaceLeaf(path, space)]
        return [SpaceLeaf(path, space, tuple(space.shape or ()), dtype)]
    if isinstance(space, Space):
        return [SpaceLeaf(path, space)]
    where = "".join(f"[{key!r}]" for key in path)
    raise SpaceError(f"expected a gymnasium Space{' at ' + where if where else ''}, got {space!r}")


def is_custom(space: Space) -> bool:
    """Whether a space is of a class that is not Gymnasium's own."""
    return not type(space).__module__.startswith("gymnasium.")


def split(space: Space, value: Any) -> list[Any]:
    """The leaf values of a nested `value`, in the order of `leaves(space)`."""
    if isinstance(space, spaces.Dict):
        try:
            parts = [value[key] for key in space.spaces]
            fits = len(value) == len(parts)
        except (KeyError, TypeError, IndexError):
            fits = False
        if not fits:
            got = sorted(value) if isinstance(value, dict) else type(value).__name__
            raise SpaceError(f"expected a dict with keys {list(space.spaces)}, got {got}")
        return [leaf for child, part in zip(space.spaces.values(), parts, strict=True) for leaf in split(child, part)]
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(space.spaces):
            got = f"{len(value)} elements" if isinstance(value, (tuple, list)) else type(value).__name__
            raise SpaceError(f"expected a tuple of {len(space.spaces)}, got {got}")
        return [leaf for child, part in zip(space.spaces, value, strict=True) for leaf in split(child, part)]
    return [value]


def join(space: Space, parts: Iterator[Any]) -> Any:
    """The inverse of `split`: takes leaf values from `parts` in order."""
    if isinstance(space, spaces.Dict):
        return {key: join(child, parts) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(join(child, parts) for child in space.spaces)
    return next(parts)


@dataclass(frozen=True)
class Field:
    """A named array in the block."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def place(wanted: Sequence[tuple[str, tuple[int, ...], Any]]) -> tuple[list[Field], int]:
    """Lay arrays one after another, each on a cache line of its own; returns the fields and the total size."""
    fields, at = [], 0
    for name, shape, dtype in wanted:
        field = Field(name, shape, np.dtype(dtype), at)
        fields.append(field)
        at += -(-field.nbytes // CACHE_LINE) * CACHE_LINE
    return fields, max(at, CACHE_LINE)
