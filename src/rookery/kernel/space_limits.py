"""The bounds of a space, per element."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces


def limits(space: Any, any_number: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest value of each element of a space, finite and of the space's own type, so that nothing
    is converted when they are compared. With `any_number`, a Box allows every finite number.

    >>> limits(spaces.Box(0.0, np.inf, (1,), np.float64))
    (array([0.]), array([1.79769313e+308]))
    """
    dtype = np.dtype(space.dtype)
    most = np.finfo(dtype) if dtype.kind == "f" else _integers(dtype)
    low, high = (most.min, most.max) if any_number and isinstance(space, spaces.Box) else _bounds(space)
    return tuple(_within(side, space.shape or (), most, dtype) for side in (low, high))  # type: ignore[return-value]


def can_leave(space: Any) -> bool:
    """Whether a number of the space's dtype can be outside the space.

    >>> can_leave(spaces.Box(0, 255, (84, 84), np.uint8)), can_leave(spaces.Box(0, 1, (84, 84), np.uint8))
    (False, True)
    """
    dtype = np.dtype(space.dtype)
    if dtype.kind == "f":
        return True  # NaN and infinity are in no space
    low, high = limits(space)
    most = _integers(dtype)
    return bool((low > most.min).any() or (high < most.max).any())


def has_no_bounds(space: Any) -> bool:
    """Whether every finite number is in the space.

    >>> has_no_bounds(spaces.Box(-np.inf, np.inf, (2,))), has_no_bounds(spaces.Box(0, np.inf, (2,)))
    (True, False)
    """
    unbounded = isinstance(space, spaces.Box) and np.dtype(space.dtype).kind == "f"
    return bool(unbounded and np.isneginf(space.low).all() and np.isposinf(space.high).all())


def _bounds(space: Any) -> tuple[Any, Any]:
    if isinstance(space, spaces.Box):
        return space.low, space.high
    if isinstance(space, spaces.MultiBinary):
        return 0, 1
    low = np.asarray(space.start)
    return low, low + (space.nvec if isinstance(space, spaces.MultiDiscrete) else space.n) - 1


def _integers(dtype: np.dtype) -> Any:
    return np.iinfo(np.uint8 if dtype == np.bool_ else dtype)


def _within(side: Any, shape: tuple[int, ...], most: Any, dtype: np.dtype) -> np.ndarray:
    kind = np.uint8 if dtype == np.bool_ else dtype
    return np.clip(np.broadcast_to(side, shape).ravel(), most.min, most.max).astype(kind)
