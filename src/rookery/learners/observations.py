"""Observations of any space as a flat list of arrays, its leaves: what storage keeps and nets read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from gymnasium import spaces

from rookery.errors import SpaceError
from rookery.learners.plain_spaces import StackedBox, channels_last, image_axes, is_read_flat

MOST_NAMES = 16  # a board whose highest number is at most this has a level for each number
SPARE_FRAMES = 16  # for so many transitions there is room for one more frame: an episode has one more than steps
MASK_KEY = "action_mask"  # where a Dict observation keeps the actions that are allowed, as PettingZoo does too


@dataclass(frozen=True)
class Leaf:
    """One array of an observation."""

    path: tuple[str | int, ...]
    shape: tuple[int, ...]
    kind: Literal["vector", "image", "choice"]
    sizes: tuple[int, ...] = ()  # of a choice: how many values each number can take
    starts: tuple[int, ...] = ()
    channels_last: bool = False
    byte: bool = False  # an image of bytes, kept as such until a net reads it
    levels: tuple[int, ...] = ()  # of a small image of greys: the least values of its levels above the lowest
    stacked: bool = False  # whether the first axis holds the latest frames

    @property
    def dtype(self) -> torch.dtype:
        """How it is stored: 4 bytes a number, or 1 for pixels."""
        return torch.uint8 if self.byte else torch.int64 if self.kind == "choice" else torch.float32

    def blank(self, rows: int, device: Any = None) -> torch.Tensor:
        """Values that a net can read, for measurements: zeros, or the first value of each choice.

        >>> Leaf((), (2,), "choice", (3, 4), (1, 0)).blank(1)
        tensor([[1, 0]])
        """
        blank = torch.zeros(rows, *self.shape, dtype=self.dtype, device=device)
        return blank + torch.tensor(self.starts, device=device).reshape(self.shape) if self.starts else blank

    @property
    def width(self) -> int:
        """How many numbers a net reads of it, images apart."""
        return sum(self.sizes) if self.kind == "choice" else int(np.prod(self.shape, dtype=np.int64))

    @property
    def stored_by_frame(self) -> bool:
        """Whether a replay buffer stores each frame once: where that takes less than half of the memory."""
        return self.stacked and 2 * self.bytes_in_transition(True) < self.bytes_in_transition(False)

    def bytes_in_transition(self, by_frame: bool) -> int:
        """What its values before and after a step take in a replay buffer: two arrays, or one frame and the numbers of
        all.

        >>> leaf = Leaf((), (4, 84, 84), "image", byte=True)
        >>> leaf.bytes_in_transition(False), leaf.bytes_in_transition(True)
        (56448, 7561)
        """
        size = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        if not by_frame:
            return 2 * size
        return size // self.shape[0] * (SPARE_FRAMES + 1) // SPARE_FRAMES + 2 * 8 * self.shape[0]

    @property
    def name(self) -> str:
        """
        >>> Leaf(("camera", 0), (3,), "vector").name
        'camera.0'
        """
        return ".".join(str(part) for part in self.path) or "observation"


def leaves_of(space: spaces.Space, path: tuple[str | int, ...] = ()) -> list[Leaf]:
    """
    >>> [leaf.kind for leaf in leaves_of(spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(-1, 1, (2,))))]
    ['choice', 'vector']
    """
    if isinstance(space, spaces.Dict):
        parts = {key: part for key, part in space.items() if path or key != MASK_KEY}
        return [leaf for key, part in parts.items() for leaf in leaves_of(part, (*path, key))]
    if isinstance(space, spaces.Tuple):
        return [leaf for k, part in enumerate(space.spaces) for leaf in leaves_of(part, (*path, k))]
    if isinstance(space, spaces.Discrete):
        return [Leaf(path, (), "choice", (int(space.n),), (int(space.start),))]
    if isinstance(space, spaces.MultiDiscrete):
        sizes, starts = (tuple(int(x) for x in numbers.ravel()) for numbers in (space.nvec, space.start))
        return [Leaf(path, space.shape, "choice", sizes, starts)]
    if isinstance(space, spaces.MultiBinary):
        return [Leaf(path, space.shape, "vector")]
    if isinstance(space, spaces.Box):
        return [_box_leaf(space, path)]
    name = ".".join(str(part) for part in path)
    where = f"the part {name!r} of the observation" if path else "the observation"
    raise SpaceError(
        f"{where} is a {type(space).__name__}, which no net here can read; the learners take Box, Discrete, "
        "MultiDiscrete and MultiBinary, alone or in a Dict or Tuple"
    )


def _box_leaf(space: spaces.Box, path: tuple[str | int, ...]) -> Leaf:
    stacked = isinstance(space, StackedBox)
    if image_axes(space) is None:
        return Leaf(path, space.shape, "vector", stacked=stacked)
    last, byte = len(space.shape) == 3 and channels_last(space.shape), space.dtype == np.uint8
    return Leaf(path, space.shape, "image", channels_last=last, byte=byte, levels=grey_levels(space), stacked=stacked)


def grey_levels(space: spaces.Box) -> tuple[int, ...]:
    """Where the levels of a small image with one plane of bytes begin. On such boards greys are often names: 1 for the
    snake, 2 for food. One number per cell would have to be taken apart by the net.

    >>> grey_levels(spaces.Box(0, 3, (10, 10), np.uint8)), grey_levels(spaces.Box(0, 255, (10, 10, 3), np.uint8))
    ((1, 2, 3), ())
    >>> grey_levels(spaces.Box(0, 255, (10, 10, 1), np.uint8))
    (1, 32, 64, 96, 128, 160, 192, 224)
    """
    planes = int(np.prod(space.shape)) // int(np.prod([space.shape[axis] for axis in image_axes(space) or ()]))
    if space.dtype != np.uint8 or not is_read_flat(space) or planes != 1:
        return ()
    highest = int(space.high.max())
    return tuple(range(1, highest + 1)) if highest <= MOST_NAMES else (1, *range(32, 256, 32))


def split(leaves: Sequence[Leaf], observation: Any, device: torch.device) -> list[torch.Tensor]:
    """A batch of observations, arrays or tensors, as one tensor a leaf; shares memory where it can."""
    return [_tensor(part_of(observation, leaf), leaf.dtype, device) for leaf in leaves]


def part_of(observation: Any, leaf: Leaf) -> Any:
    """The array or tensor of this leaf, of one observation or a batch."""
    return at_path(observation, leaf.path)


def at_path(nested: Any, path: Sequence[str | int]) -> Any:
    """The part of a nested value to which these keys lead."""
    for key in path:
        nested = nested[key]
    return nested


def stack(leaves: Sequence[Leaf], rows: Sequence[Any], device: torch.device) -> list[torch.Tensor]:
    """Single observations, such as `final_obs`, as a batch of leaves."""
    return [_tensor(np.stack([np.asarray(part_of(row, leaf)) for row in rows]), leaf.dtype, device) for leaf in leaves]


def are_tensors(observations: Any) -> bool:
    """Whether they are torch tensors, or a Dict or Tuple of them: envs on a GPU return these.

    >>> are_tensors({"a": torch.zeros(2, 3)}), are_tensors(np.zeros((2, 3)))
    (True, False)
    """
    while isinstance(observations, (dict, tuple)):
        observations = next(iter(observations.values() if isinstance(observations, dict) else observations))
    return isinstance(observations, torch.Tensor)


def choices_in(space: spaces.Space) -> int | None:
    """How many entries a mask of the actions has, over all parts of a Dict or Tuple; None where none are choices.

    >>> choices_in(spaces.MultiDiscrete([3, 2])), choices_in(spaces.Box(-1, 1, (2,)))
    (5, None)
    """
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return sum(choices_in(part) or 0 for part in parts) or None
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    return int(space.nvec.sum()) if isinstance(space, spaces.MultiDiscrete) else None


def _tensor(values: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if not isinstance(values, torch.Tensor):
        array = np.asarray(values, order="C")  # a single number keeps its shape ()
        values = torch.from_numpy(array if array.flags.writeable else array.copy())  # torch warns of read-only memory
    return values.to(device, dtype)
