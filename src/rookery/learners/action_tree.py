"""Dict and Tuple actions as one flat vector: learners act in the vector, envs get the parts.

The vector holds the parts one after another: a Box part as its numbers, a choice (Discrete, MultiDiscrete, MultiBinary)
as its number, counted from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rookery.learners.observations import choices_in

PLAIN = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
Path = tuple[str | int, ...]  # the keys that lead to a part
Values = Any  # an array or a tensor, [batch, ...]


class ActionPart:
    """One space in the tree, and its columns of the flat vector."""

    def __init__(self, path: Path, space: Any, columns: slice) -> None:
        self.path, self.space, self.columns = path, space, columns
        self.start = getattr(space, "start", 0)  # what is added to choices, which count from 0 in the flat vector
        # What tensors need, in plain values: an exported model can hold no arrays.
        self._starts = [int(start) for start in np.broadcast_to(self.start, space_shape(space)).ravel()]
        self._dtype = torch.from_numpy(np.empty(0, space.dtype)).dtype if isinstance(space, PLAIN) else None

    @property
    def name(self) -> str:
        """
        >>> ActionPart(("arm", 0), spaces.Discrete(2), slice(0, 1)).name
        'arm.0'
        """
        return ".".join(str(key) for key in self.path)

    @property
    def choices(self) -> int:
        """How many entries a mask has for it."""
        return choices_in(self.space) or 0

    def of(self, flat: Values) -> Values:
        """Its actions as the env takes them, from a batch of flat ones."""
        values, shape = flat[:, self.columns], space_shape(self.space)
        if isinstance(flat, torch.Tensor):
            return self._of_tensor(values).reshape(-1, *shape)
        values = values.reshape(-1, *shape)
        if isinstance(self.space, spaces.Box):  # bounds of 64 bits are not those of the 32 bits in which nets compute
            return values.astype(self.space.dtype).clip(self.space.low, self.space.high)
        return (values.astype(np.int64) + self.start).astype(self.space.dtype)

    def _of_tensor(self, values: torch.Tensor) -> torch.Tensor:
        if isinstance(self.space, spaces.Box):
            return values.to(self._dtype)
        columns = [values[:, k : k + 1].long() + start for k, start in enumerate(self._starts)]
        return torch.cat(columns, 1).to(self._dtype)


class ActionTree:
    """The parts of a Dict or Tuple action space.

    >>> tree = ActionTree(spaces.Dict(arm=spaces.Discrete(3, start=1), force=spaces.Box(0, 9, (2,))))
    >>> {name: part.tolist() for name, part in tree.nest(np.array([[2, 0.5, 10]], np.float32)).items()}
    {'arm': [3], 'force': [[0.5, 9.0]]}
    """

    def __init__(self, space: spaces.Space) -> None:
        self.space, self.parts, self.width = space, list[ActionPart](), 0
        for path, part in _plain_spaces(space):
            size = int(np.prod(space_shape(part), dtype=np.int64))
            self.parts.append(ActionPart(path, part, slice(self.width, self.width + size)))
            self.width += size

    def nest(self, flat: Values) -> Any:
        """A batch of flat actions, [batch, width], in the structure of the space."""
        parts = iter([part.of(flat) for part in self.parts])
        return _structured(self.space, lambda _: next(parts))

    def as_box(self) -> spaces.Box | None:
        """The flat vector as a Box, if all parts are boxes of floats."""
        boxes = [part.space for part in self.parts]
        if not boxes or not all(isinstance(box, spaces.Box) and box.dtype.kind == "f" for box in boxes):
            return None
        low, high = (np.concatenate([getattr(box, end).ravel() for box in boxes]) for end in ("low", "high"))
        return spaces.Box(low.astype(np.float32), high.astype(np.float32))


def action_tree(space: spaces.Space) -> ActionTree | None:
    """The tree of a Dict or Tuple; None for a space that is one array."""
    return ActionTree(space) if isinstance(space, (spaces.Dict, spaces.Tuple)) else None


def row_of(actions: Any, row: int) -> Any:
    """One action of a batch in any structure."""
    if isinstance(actions, dict):
        return {key: row_of(part, row) for key, part in actions.items()}
    return tuple(row_of(part, row) for part in actions) if isinstance(actions, tuple) else actions[row]


def flat_space(space: spaces.Space) -> spaces.Space:
    """The Box in which a learner for continuous actions acts: that of a Dict or Tuple of boxes, else the space."""
    tree = action_tree(space)
    return space if tree is None else tree.as_box() or space


def space_shape(space: spaces.Space) -> tuple[int, ...]:
    """The shape of one action of a plain space."""
    return tuple(space.shape or ())


def _plain_spaces(space: spaces.Space, path: Path = ()) -> list[tuple[Path, spaces.Space]]:
    if isinstance(space, spaces.Dict):
        return [found for key, part in space.items() for found in _plain_spaces(part, (*path, key))]
    if isinstance(space, spaces.Tuple):
        return [found for k, part in enumerate(space.spaces) for found in _plain_spaces(part, (*path, k))]
    return [(path, space)]


def _structured(space: spaces.Space, value_of: Callable[[spaces.Space], Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _structured(part, value_of) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_structured(part, value_of) for part in space.spaces)
    return value_of(space)
