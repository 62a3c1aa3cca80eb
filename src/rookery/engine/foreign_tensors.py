"""Nested tensors of other libraries' vector envs: torch's own, or arrays that torch can share, such as JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor


def mapped(function: Callable[[Any], Any], values: Any) -> Any:
    """A function of each leaf of nested dicts and tuples.

    >>> mapped(lambda x: x + 1, {"a": 1, "b": (2, 3)})
    {'a': 2, 'b': (3, 4)}
    """
    if isinstance(values, dict):
        return {key: mapped(function, part) for key, part in values.items()}
    if isinstance(values, (tuple, list)):
        return tuple(mapped(function, part) for part in values)
    return function(values)


def is_shareable(value: Any) -> bool:
    """Whether it is a tensor, or an array that torch can share without a copy; NumPy's are not meant."""
    return isinstance(value, Tensor) or (hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray))


def first_tensor(values: Any) -> Tensor | None:
    """The first leaf as a tensor; None if it is none."""
    while isinstance(values, (dict, tuple, list)) and len(values):
        values = next(iter(values.values() if isinstance(values, dict) else values))
    return as_tensors(values) if is_shareable(values) and values.ndim else None


def as_tensors(values: Any) -> Any:
    """Nested arrays as torch's tensors, which share their memory."""
    return mapped(lambda x: x if isinstance(x, Tensor) else torch.from_dlpack(x), values)


def as_given(tensors: Any, like: Any) -> Any:
    """Tensors as arrays of the library that `like` is of."""
    while isinstance(like, (dict, tuple, list)):
        like = next(iter(like.values() if isinstance(like, dict) else like))
    if isinstance(like, Tensor) or not hasattr(like, "__array_namespace__"):
        return tensors
    library = like.__array_namespace__()
    return mapped(lambda tensor: library.from_dlpack(tensor.contiguous()), tensors)


def copied(values: Any) -> Any:
    """Nested tensors that nobody overwrites."""
    return mapped(lambda x: x.clone(), values)


def where_rows(chosen: Tensor, these: Any, others: Any) -> Any:
    """Rows of one nested tensor where `chosen` [rows] is true, of the other where not."""
    if isinstance(these, dict):
        return {key: where_rows(chosen, part, others[key]) for key, part in these.items()}
    if isinstance(these, tuple):
        return tuple(where_rows(chosen, *parts) for parts in zip(these, others, strict=True))
    return torch.where(chosen.reshape(-1, *[1] * (these.ndim - 1)), these, others)


def numbers_in(space: spaces.Space, actions: Any) -> Any:
    """Actions in the dtypes of a space."""
    if isinstance(space, spaces.Dict):
        return {key: numbers_in(part, actions[key]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(numbers_in(part, x) for part, x in zip(space.spaces, actions, strict=True))
    return actions.to(torch.from_numpy(np.zeros(0, space.dtype)).dtype)
