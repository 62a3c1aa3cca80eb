"""Stacked observations in a replay buffer: each frame is stored once, and a stack is the numbers of its frames.

Of a stack of four frames, three are those of the observation before, and the next observation repeats three of its own.
So a plain buffer stores each frame eight times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.errors import CheckpointError
from rookery.learners.cached_njit import cached_njit
from rookery.learners.observations import SPARE_FRAMES, Leaf

SCARCE = 64  # with less than one free frame for so many transitions, there will be more
BLOCK = 4096  # frames that are moved at once
BLANK = -1  # the number of a frame of zeros, with which all envs begin


class FrameStore:
    """The frames of one leaf of the observations of some envs, numbered in the order in which they came.

    What comes is compared with the latest stack of its env: a stack that has moved by one frame brings one, and the
    same stack none. Any other, such as the first one of an episode, brings all frames that differ from the one before.
    So nothing is assumed about episodes, resets or envs, and what is read is what was written, bit for bit.

    The places are a ring. Where episodes are so short that their additional frames do not fit, it becomes larger.
    """

    def __init__(self, leaf: Leaf, capacity: int, num_envs: int, n_step: int, device: torch.device) -> None:
        """For a replay buffer with this `capacity`."""
        self.depth, self.device, self._capacity = leaf.shape[0], device, capacity
        self.numbers = replace(leaf, shape=(self.depth,), kind="choice", byte=False, stacked=False)  # what is stored
        self._latest = torch.full((num_envs, self.depth), BLANK, device=device)
        self._places = capacity + capacity // SPARE_FRAMES + (n_step + 8) * self._burst
        self._allocate(self._places, leaf.shape[1:], leaf.dtype)
        self._frames[BLANK % self._places] = 0
        self.count = torch.zeros((), dtype=torch.int64, device=device)  # the number of the next frame
        self._room = self._places  # how many frames may come before somebody has to look

    def _allocate(self, places: int, shape: Sequence[int], dtype: torch.dtype) -> None:
        """A ring of so many places, and one that only `DeviceFrameStore` uses. It is not filled: memory is taken from
        the system as frames come."""
        self._places, self._frames = places, torch.empty(places + 1, *shape, dtype=dtype, device=self.device)
        self._words = _as_words(self._frames, 1)

    @property
    def nbytes(self) -> int:
        """The size of a full store."""
        return self._frames.nbytes

    @property
    def tensors(self) -> list[Tensor]:
        """What `put` changes and reads again."""
        return [self.count, self._latest]

    @property
    def _burst(self) -> int:
        """The most frames that one step of all envs brings: with its observation, and with the one after it."""
        return 2 * self.depth * len(self._latest)

    # --- frames in, frames out --------------------------------------------------------------------------------------

    def put(self, rows: slice, stacks: Tensor) -> Tensor:
        """Keep what these envs observe; returns the numbers of its frames, [rows, depth]."""
        numbers = torch.empty(len(stacks), self.depth, dtype=torch.int64)
        frames, latest = self._words.numpy(), self._latest[rows].numpy()
        count = _put(frames, _as_words(stacks, 2).numpy(), latest, int(self.count), numbers.numpy())
        self.count.fill_(count)
        return numbers

    def get(self, before: Tensor, after: Tensor) -> Sequence[Tensor]:
        """The stacks of these frames, [rows, depth, ...], before and after some transitions."""
        frames = self._words.numpy()
        stacks = np.empty((2, *before.shape, frames.shape[1]), frames.dtype)
        _get(frames, before.numpy(), after.numpy(), *stacks)
        found = torch.from_numpy(stacks).view(self._frames.dtype)
        return found.view(2, *before.shape, *self._frames.shape[1:]).unbind(0)

    def _place(self, numbers: Tensor) -> Tensor:
        return numbers % self._places

    # --- room -------------------------------------------------------------------------------------------------------

    def make_room(self, steps: int, oldest: Callable[[], int | None]) -> bool:
        """Before so many steps of envs are stored: have places for their frames. `oldest` finds the least number that
        is needed, apart from those of the latest observations. Returns whether tensors were replaced.

        The count is read from the device only when the ring could be full."""
        self._room -= steps * 2 * self.depth
        if self._room >= 4 * self._burst:
            return False
        count, needed = int(self.count), self._needed(oldest())
        self._room = self._places - (count - needed)
        if self._room >= max(self._capacity // SCARCE, 8 * self._burst):
            return False
        self._move_to(self._places + self._capacity // SPARE_FRAMES + 8 * self._burst, needed, count)
        return True

    def _needed(self, oldest: int | None) -> int:
        latest = int(self._latest.min())
        return latest if oldest is None else min(oldest, latest)

    def _move_to(self, places: int, first: int, stop: int) -> None:
        """Become a ring of so many places, with the frames from number `first`."""
        old, before = self._frames, self._places
        self._allocate(places, old.shape[1:], old.dtype)
        for low in range(first, stop, BLOCK):
            numbers = torch.arange(low, min(low + BLOCK, stop), device=self.device)
            self._frames.index_copy_(0, self._place(numbers), old.index_select(0, numbers % before))
        self._room = places - (stop - first)

    def resize(self, num_envs: int) -> None:
        """Add or remove envs at the end. What a new one observes is compared with any stack that is there."""
        more = max(0, num_envs - len(self._latest))
        self._latest = torch.cat([self._latest[:num_envs], self._latest[:1].expand(more, -1)])
        self._room = 0

    # --- save and load ----------------------------------------------------------------------------------------------

    def state(self, oldest: int | None) -> dict[str, Any]:
        """The frames from number `oldest`, and those of the latest observations. On a CPU they are views."""
        count, needed = int(self.count), max(0, self._needed(oldest))
        begin, end = needed % self._places, needed % self._places + count - needed
        parts = self._frames[begin : min(end, self._places)], self._frames[: max(0, end - self._places)]
        older, newer = (part.cpu().numpy() for part in parts)
        return {"older": older, "newer": newer, "count": count, "latest": self._latest.cpu().numpy().copy()}

    def load(self, state: dict[str, Any]) -> None:
        parts, count, latest = (state["older"], state["newer"]), int(state["count"]), np.array(state["latest"])
        first = count - sum(map(len, parts))
        shapes = {part.shape[1:] for part in parts} | {tuple(self._frames.shape[1:])}
        if first < 0 or len(shapes) > 1 or latest.shape != tuple(self._latest.shape):
            raise CheckpointError("the saved frames of observations do not fit the observations of this run")
        if count - first > self._places - 8 * self._burst:
            self._move_to(count - first + self._capacity // SPARE_FRAMES + 8 * self._burst, 0, 0)
        self._frames[BLANK % self._places] = 0
        for part in parts:
            for low in range(0, len(part), BLOCK):
                block = torch.from_numpy(np.array(part[low : low + BLOCK])).to(self.device)
                numbers = torch.arange(first, first + len(block), device=self.device)
                self._frames.index_copy_(0, self._place(numbers), block)
                first += len(block)
        self.count.fill_(count)
        self._latest.copy_(torch.from_numpy(latest))
        self._room = 0


class DeviceFrameStore(FrameStore):
    """The same numbers, by operations of fixed sizes that wait for nothing: they can be captured."""

    def get(self, before: Tensor, after: Tensor) -> Sequence[Tensor]:
        return self._gather(torch.cat([before, after])).split(len(before))

    def _gather(self, numbers: Tensor) -> Tensor:
        found = self._frames.index_select(0, self._place(numbers).flatten())
        return found.view(*numbers.shape, *self._frames.shape[1:])

    def put(self, rows: slice, stacks: Tensor) -> Tensor:
        latest = self._latest[rows]
        new, old = _as_words(stacks, 2), _as_words(self._gather(latest), 2)
        same = (new == old).flatten(1).all(1, keepdim=True)
        moved = (new[:, :-1] == old[:, 1:]).flatten(1).all(1, keepdim=True)
        fresh = torch.ones_like(latest, dtype=torch.bool)
        fresh[:, 1:] = (new[:, 1:] != new[:, :-1]).any(2)
        fresh = torch.where(moved, torch.arange(self.depth, device=self.device) == self.depth - 1, fresh) & ~same
        numbers = self.count + fresh.flatten().cumsum(0).view(fresh.shape) - 1
        # Frames that are known go to a place after the ring, which nobody reads.
        places = torch.where(fresh, self._place(numbers), self._places)
        self._frames.index_copy_(0, places.flatten(), stacks.flatten(0, 1))
        self.count.add_(fresh.sum())
        shifted = torch.cat([latest[:, 1:], numbers[:, -1:]], 1)
        numbers = torch.where(same, latest, torch.where(moved, shifted, numbers))
        self._latest[rows] = numbers
        return numbers


def _as_words(frames: Tensor, axes: int) -> Tensor:
    """The bytes of each frame, compared as they are: eight at a time where that is possible."""
    flat = frames.contiguous().flatten(axes).view(torch.uint8)
    if flat.shape[-1] % 8:
        return flat
    return (flat.clone() if flat.storage_offset() % 8 else flat).view(torch.int64)


@cached_njit(nogil=True)
def _put(frames: np.ndarray, stacks: np.ndarray, latest: np.ndarray, count: int, numbers: np.ndarray) -> int:
    depth, places = stacks.shape[1], len(frames) - 1
    for row in range(len(stacks)):
        stack, known = stacks[row], latest[row]
        same = moved = True
        for k in range(depth):
            same = same and _equal(stack[k], frames[known[k] % places])
        for k in range(depth - 1):
            moved = moved and not same and _equal(stack[k], frames[known[k + 1] % places])
        for k in range(depth):
            if same:
                numbers[row, k] = known[k]
            elif moved and k < depth - 1:
                numbers[row, k] = known[k + 1]
            elif not moved and k > 0 and _equal(stack[k], stack[k - 1]):
                numbers[row, k] = numbers[row, k - 1]
            else:
                frames[count % places] = stack[k]
                numbers[row, k] = count
                count += 1
        latest[row] = numbers[row]
    return count


@cached_njit(nogil=True)
def _get(
    frames: np.ndarray, before: np.ndarray, after: np.ndarray, before_out: np.ndarray, after_out: np.ndarray
) -> None:
    """Both stacks of a transition one after the other: most of their frames are the same, and in the cache then."""
    places = len(frames) - 1
    for row in range(len(before)):
        for k in range(before.shape[1]):
            before_out[row, k] = frames[before[row, k] % places]
        for k in range(before.shape[1]):
            after_out[row, k] = frames[after[row, k] % places]


@cached_njit(nogil=True)
def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    for k in range(len(one)):  # noqa: SIM110 - compiled
        if one[k] != other[k]:
            return False
    return True
