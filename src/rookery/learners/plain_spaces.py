"""Spaces without torch: which boxes are images, and where their height and width are (workers shrink images too); and
spaces as trees of arrays and plain values, so that a checkpoint knows what its agent sees and does."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import CheckpointError, SpaceError


class StackedBox(spaces.Box):
    """A Box whose first axis holds the latest frames, the newest one last: a replay buffer stores each frame once.

    >>> StackedBox.of(spaces.Box(0, 255, (4, 84, 84), np.uint8))
    Box(0, 255, (4, 84, 84), uint8)
    """

    @classmethod
    def of(cls, space: spaces.Space) -> spaces.Space:
        """The same space, if it can be one of stacks."""
        if type(space) is not spaces.Box or len(space.shape) < 2 or space.shape[0] < 2:
            return space
        return cls(space.low, space.high, dtype=space.dtype.type)

    def as_box(self) -> spaces.Box:
        """The same space, whose frames nobody knows."""
        return spaces.Box(self.low, self.high, dtype=self.dtype.type)


SMALLEST_IMAGE = 8  # pixels a side; smaller three-dimensional boxes are read as vectors
SMALL_IMAGE = 12  # pixels; with a shorter side, images are read as vectors too (option `images`)


def image_axes(space: spaces.Space) -> tuple[int, int] | None:
    """The axes of height and width; None if the space is not an image.

    >>> image_axes(spaces.Box(0, 255, (3, 64, 80), np.uint8)), image_axes(spaces.Box(-1, 1, (4,)))
    ((1, 2), None)
    """
    if not isinstance(space, spaces.Box):
        return None
    shape = space.shape
    if len(shape) == 3:
        axes = (0, 1) if channels_last(shape) else (1, 2)
    elif len(shape) == 2 and space.dtype == np.uint8:
        axes = (0, 1)
    else:
        return None
    return axes if min(shape[axis] for axis in axes) >= SMALLEST_IMAGE else None


def is_read_flat(space: spaces.Space) -> bool:
    """Whether a Box with several axes, such as a small image or a board, is read as one vector.

    >>> [is_read_flat(spaces.Box(0, 255, shape, np.uint8)) for shape in ((10, 10), (10, 10, 3), (84, 84), (5,))]
    [True, True, False, False]
    """
    if not isinstance(space, spaces.Box) or len(space.shape) not in (2, 3):
        return False
    axes = image_axes(space)
    return axes is None or min(space.shape[axis] for axis in axes) < SMALL_IMAGE


def channels_last(shape: tuple[int, ...]) -> bool:
    """Screens and boards are mostly square; where that does not decide, there are fewer channels than pixels."""
    if (shape[0] == shape[1]) != (shape[1] == shape[2]):
        return shape[0] == shape[1]
    return shape[2] < shape[0]


MOST_PARTS = 10_000
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
BOX_TYPES = ("float16", "float32", "float64", *INTEGERS, "bool")


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
