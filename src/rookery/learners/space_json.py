"""Spaces as trees of arrays and plain values, so that a checkpoint knows what its agent sees and does."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import CheckpointError, SpaceError

MOST_PARTS = 10_000
BOX_TYPES = (
    "float16",
    "float32",
    "float64",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "bool",
)


def to_tree(space: spaces.Space) -> dict[str, Any]:
    """
    >>> to_tree(spaces.Discrete(3))
    {'kind': 'Discrete', 'n': 3, 'start': 0}
    """
    kind = type(space).__name__
    if isinstance(space, spaces.Box):
        return {"kind": "Box", "low": space.low.copy(), "high": space.high.copy(), "dtype": str(space.dtype)}
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "MultiDiscrete", "nvec": space.nvec.copy(), "start": np.asarray(space.start).copy()}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "MultiBinary", "n": space.n if isinstance(space.n, int) else [int(k) for k in space.n]}
    if isinstance(space, spaces.Dict):
        return {"kind": "Dict", "keys": list(space.keys()), "parts": _parts(space.values())}
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "parts": _parts(space.spaces)}
    raise SpaceError(f"a {kind} space cannot be saved")


def _parts(parts: Any) -> dict[str, Any]:
    return {str(k): to_tree(part) for k, part in enumerate(parts)}


def from_tree(tree: dict[str, Any]) -> spaces.Space:
    """
    >>> from_tree(to_tree(spaces.Dict(a=spaces.MultiBinary(2))))
    Dict('a': MultiBinary(2))
    """
    _check_size(tree)
    return _space(tree)


def _check_size(tree: dict[str, Any]) -> None:
    """Refuse a description with more parts than any observation has: each of them would become an object."""
    parts = [tree]
    for space in parts:
        parts += space["parts"].values() if "parts" in space else ()
        if len(parts) > MOST_PARTS:
            raise CheckpointError(f"a space has more than {MOST_PARTS:,} parts, which none has")


def _space(tree: dict[str, Any]) -> spaces.Space:
    kind = tree.get("kind")
    if kind == "Box":
        if tree["dtype"] not in BOX_TYPES:
            raise CheckpointError(f"unknown type of a Box: {tree['dtype']!r:.40}")
        return spaces.Box(np.array(tree["low"]), np.array(tree["high"]), dtype=np.dtype(tree["dtype"]).type)
    if kind == "Discrete":
        return spaces.Discrete(tree["n"], start=tree["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.array(tree["nvec"]), start=np.array(tree["start"]))
    if kind == "MultiBinary":
        return spaces.MultiBinary(tree["n"])
    if kind in ("Dict", "Tuple"):
        parts = [_space(tree["parts"][str(k)]) for k in range(len(tree["parts"]))]
        # Pairs, since Dict would sort a dict's keys: nets read the parts in the order they were trained with.
        return spaces.Tuple(parts) if kind == "Tuple" else spaces.Dict(list(zip(tree["keys"], parts, strict=True)))
    raise CheckpointError(f"unknown kind of space: {kind!r:.40}")
