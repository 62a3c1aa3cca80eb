"""What an agent is given to act on, as tensors: anything that is not numbers of the right shape gets an error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.errors import BadValue, SpaceError
from rookery.learners.observations import Leaf, part_of

FEW = 4096  # numbers
UNREADABLE = (KeyError, IndexError, TypeError, AttributeError)


def read_leaves(
    leaves: Sequence[Leaf], observations: Any, device: torch.device, nan: bool = False
) -> tuple[list[Tensor], bool]:
    """Observations as one tensor [batch, ...] per leaf, and whether a single observation was given. `nan` allows NaN;
    a GPU's tensors are not searched for it, as that would wait for the GPU."""
    given = [_numbers(leaf, _part(leaf, observations)) for leaf in leaves]
    single = all(values.shape == leaf.shape for leaf, values in zip(leaves, given, strict=True))
    tensors = []
    for leaf, values in zip(leaves, given, strict=True):
        if not single and (values.ndim == 0 or values.shape[1:] != leaf.shape):
            wanted = f"({', '.join(['batch', *map(str, leaf.shape)])})"
            one = f", or {leaf.shape} for one observation" if len(leaves) == 1 else ""
            raise SpaceError(f"{leaf.name} should be of shape {wanted}{one}, got {tuple(values.shape)}")
        if not isinstance(values, Tensor) or values.device.type == "cpu":
            _check_values(leaf, values, nan)
        tensor = (values if isinstance(values, Tensor) else torch.from_numpy(values)).to(device, leaf.dtype)
        tensors.append(tensor.unsqueeze(0) if single else tensor)
    rows = {len(tensor) for tensor in tensors}
    if len(rows) > 1:
        raise SpaceError(f"the parts of the observations have different numbers of rows: {sorted(rows)}")
    return tensors, single


def _part(leaf: Leaf, observations: Any) -> Any:
    try:
        return part_of(observations, leaf)
    except UNREADABLE:
        raise SpaceError(
            f"the observations should have a part {leaf.name!r}, as the agent's world gives it, "
            f"got {observations!r:.60}"
        ) from None


def _numbers(leaf: Leaf, values: Any) -> Any:
    """An array or a tensor of numbers; arrays that torch can take, which warns of read-only memory."""
    if isinstance(values, Tensor):
        return values
    try:
        array = np.asarray(values, order="C")  # a single number keeps its shape ()
    except (ValueError, TypeError, OverflowError, RuntimeError):
        raise SpaceError(f"{leaf.name} should be numbers, with equally many in each row, got {values!r:.60}") from None
    if array.dtype.kind not in "biuf":
        raise SpaceError(f"{leaf.name} should be numbers of shape {leaf.shape}, or a batch of such, got {values!r:.60}")
    if array.dtype.itemsize > 8 or not array.dtype.isnative:  # which torch does not take
        return array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    return array if array.flags.writeable else array.copy()


def _check_values(leaf: Leaf, values: Any, nan: bool) -> None:
    """Refuse NaN; of choices and pixels also what would become another number when it is cast."""
    if isinstance(values, Tensor):
        if leaf.dtype == torch.float32 and not values.is_floating_point():
            return
        values = (values.float() if values.dtype == torch.bfloat16 else values).detach().numpy()  # NumPy has none
    if values.dtype.kind == "f" and not (nan and leaf.dtype == torch.float32) and _has_nan(values):
        first = np.argwhere(np.isnan(values))[0].tolist()
        raise BadValue(f"{leaf.name}{first or ''} is nan: an agent needs numbers to act on")
    if leaf.dtype == torch.float32 or (leaf.byte and values.dtype == np.uint8):
        return
    low = np.array(leaf.starts).reshape(leaf.shape) if leaf.kind == "choice" else 0
    high = low + np.array(leaf.sizes).reshape(leaf.shape) if leaf.kind == "choice" else 256
    wrong = (values < low) | (values >= high) | (values != np.floor(values))
    if wrong.any():
        first = np.argwhere(wrong)[0].tolist()
        bounds = f"from {np.min(low)} to {np.max(high) - 1}"
        raise SpaceError(f"{leaf.name}{first or ''} should be an integer {bounds}, got {values[tuple(first)]}")


def _has_nan(values: np.ndarray) -> bool:
    """Several times quicker than `np.isnan(values).any()`: a sum of squares is NaN only if a number is; large arrays
    would wake up the threads of BLAS."""
    if values.size <= FEW:
        flat = values.ravel()
        return math.isnan(np.dot(flat, flat))
    return math.isnan(np.minimum.reduce(values, axis=None))
