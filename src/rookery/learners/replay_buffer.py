"""The replay buffer of off-policy learners: transitions of n steps, in tensors that are allocated once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from torch import Tensor

from rookery.errors import CheckpointError, MemoryShortage, OptionError
from rookery.learners.cached_njit import cached_njit
from rookery.learners.frame_store import FrameStore
from rookery.learners.observations import Leaf

# Transitions: where they began, which of the rows they belong to, and their rewards and discounts side by side.
Complete = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class ReplayBatch:
    """Some transitions."""

    leaves: list[Tensor]  # of the observation in which the first action was chosen
    actions: Tensor
    rewards: Tensor  # of all steps, later ones discounted
    discounts: Tensor  # what the value of `next_leaves` counts: gamma to the number of steps, or 0 after the end
    next_leaves: list[Tensor]
    next_masks: Tensor | None  # actions allowed in `next_leaves`


class Transitions(NamedTuple):
    """Transitions as `ReplayBuffer.add` takes them: it reads `leaves` and `actions` of its first argument."""

    leaves: list[Tensor]
    actions: Tensor
    complete: Complete
    next_leaves: list[Tensor]


class NStepBuffer:
    """The last steps of each env, until enough have followed to make transitions of them.

    Queues are kept by row, so that groups of envs may be recorded at different times.
    """

    def __init__(
        self, leaves: Sequence[Leaf], action: Tensor, n_step: int, gamma: float, num_envs: int, device: torch.device
    ) -> None:
        """`action` is an example of one."""
        self.n_step, self.gamma, self.device = n_step, gamma, device
        places = num_envs * n_step
        self.leaves = [torch.zeros(places, *leaf.shape, dtype=leaf.dtype, device=device) for leaf in leaves]
        self.actions = torch.zeros(places, *action.shape, dtype=action.dtype, device=device)
        self._rewards = np.zeros((num_envs, n_step))
        self._heads = np.zeros(num_envs, np.int64)  # where each queue begins
        self._counts = np.zeros(num_envs, np.int64)

    def store(self, rows: slice, leaves: Sequence[Tensor], actions: Tensor) -> None:
        """Observations and actions of the next step."""
        newest = (self._heads[rows] + self._counts[rows]) % self.n_step
        newest += np.arange(rows.start, rows.start + len(newest)) * self.n_step
        places = torch.from_numpy(newest).to(self.device)
        for kept, leaf in zip(self.leaves, leaves, strict=True):
            kept.index_copy_(0, places, leaf)
        self.actions.index_copy_(0, places, actions)

    def complete(self, rows: slice, rewards: np.ndarray, terminated: np.ndarray, truncated: np.ndarray) -> Complete:
        """The results of that step. Returns the transitions that they complete."""
        most = len(rewards) * self.n_step
        begun, places = np.empty((2, most), np.int64)
        outcomes = np.empty((most, 2), np.float32)
        queues = self._rewards, self._heads, self._counts
        rewards = np.ascontiguousarray(rewards, np.float64)
        count = _complete(*queues, rows.start, rewards, terminated, truncated, self.gamma, begun, places, outcomes)
        return begun[:count], places[:count], outcomes[:count]

    def waiting(self, leaf: int) -> Tensor:
        """That part of the observations whose transitions are not complete yet."""
        steps = (np.arange(self.n_step) - self._heads[:, None]) % self.n_step
        return self.leaves[leaf][torch.from_numpy((steps < self._counts[:, None]).ravel()).to(self.device)]

    def clear(self, rows: slice) -> None:
        """The episodes of these envs were broken off from outside: nothing follows their stored steps."""
        self._counts[rows] = 0

    def resize(self, num_envs: int) -> None:
        """Add or remove envs at the end."""
        places = num_envs * self.n_step
        self.leaves = [_resized(leaf, places) for leaf in self.leaves]
        self.actions = _resized(self.actions, places)
        arrays = (self._rewards, self._heads, self._counts)
        self._rewards, self._heads, self._counts = (_resized(torch.from_numpy(x), num_envs).numpy() for x in arrays)

    def state(self) -> dict[str, np.ndarray]:
        """All stored steps."""
        tensors = {f"leaf{k}": leaf for k, leaf in enumerate(self.leaves)} | {"actions": self.actions}
        arrays = {name: value.cpu().numpy().copy() for name, value in tensors.items()}
        queues = {"rewards": self._rewards, "heads": self._heads, "counts": self._counts}
        return arrays | {name: value.copy() for name, value in queues.items()}

    def load(self, state: dict[str, np.ndarray]) -> None:
        for k, leaf in enumerate(self.leaves):
            leaf.copy_(torch.from_numpy(np.array(state[f"leaf{k}"])))
        self.actions.copy_(torch.from_numpy(np.array(state["actions"])))
        queues = {name: np.array(state[name]) for name in ("rewards", "heads", "counts")}
        # Compiled code counts on it: beyond the ends of a queue lies other memory.
        places = [queues[name] for name in ("heads", "counts")]
        if any((part < 0).any() or (part >= self.n_step).any() for part in places):
            raise CheckpointError(f"the saved n-step queues do not fit n_step={self.n_step}")
        self._rewards, self._heads, self._counts = queues.values()


@cached_njit(nogil=True)
def _complete(
    queued: np.ndarray,
    heads: np.ndarray,
    counts: np.ndarray,
    first_row: int,
    rewards: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    gamma: float,
    begun: np.ndarray,
    places: np.ndarray,
    outcomes: np.ndarray,
) -> int:
    """One step of some envs: the oldest step of a full queue becomes a transition, and all of them at an episode's end.
    Row by row, oldest first, so that the order never varies."""
    n_step, found = queued.shape[1], 0
    for place in range(len(rewards)):
        row = first_row + place
        queued[row, (heads[row] + counts[row]) % n_step] = rewards[place]
        counts[row] += 1
        ended = terminated[place] or truncated[place]
        while counts[row] == n_step or (ended and counts[row] > 0):
            total, power = 0.0, 1.0
            for k in range(counts[row]):
                total += power * queued[row, (heads[row] + k) % n_step]
                power *= gamma
            begun[found] = row * n_step + heads[row]
            places[found] = place
            outcomes[found, 0] = total
            outcomes[found, 1] = 0.0 if terminated[place] else power
            heads[row] = (heads[row] + 1) % n_step
            counts[row] -= 1
            found += 1
    return found


class ReplayBuffer:
    """The last `capacity` transitions. With `num_envs`, each frame of stacked observations is stored once: then what
    `leaves` describes is stored, and `pack` makes it of observations."""

    frame_store: type[FrameStore] = FrameStore
    size: int
    _cursor: int  # where the next one goes

    def __init__(
        self,
        leaves: Sequence[Leaf],
        action: Tensor,
        capacity: int,
        device: torch.device,
        num_envs: int = 0,
        n_step: int = 1,
    ) -> None:
        """`action` is an example of one."""
        self.capacity, self.device = capacity, device
        self.clear()
        stacked = {k for k, leaf in enumerate(leaves) if num_envs and leaf.stored_by_frame}
        results = {"actions": (tuple(action.shape), action.dtype)}
        results |= {"outcomes": ((2,), torch.float32)}  # rewards and discounts
        size = sum(_bytes(*part) for part in results.values())
        size += sum(leaf.bytes_in_transition(k in stacked) for k, leaf in enumerate(leaves))
        _check_memory(capacity, size, device)
        self.frames = {k: self.frame_store(leaves[k], capacity, num_envs, n_step, device) for k in sorted(stacked)}
        self.leaves = [self.frames[k].numbers if k in stacked else leaf for k, leaf in enumerate(leaves)]
        plan = {f"leaf{k}": (leaf.shape, leaf.dtype) for k, leaf in enumerate(self.leaves)}
        plan |= {f"next{k}": (leaf.shape, leaf.dtype) for k, leaf in enumerate(self.leaves)}
        # Not filled: memory is taken from the system only as transitions come.
        self._tensors = {
            name: torch.empty(capacity, *shape, dtype=dtype, device=device)
            for name, (shape, dtype) in (plan | results).items()
        }

    @property
    def nbytes(self) -> int:
        """The size of a full buffer."""
        frames = sum(store.nbytes for store in self.frames.values())
        return frames + sum(tensor.nbytes for tensor in self._tensors.values())

    # --- frames of stacked observations -----------------------------------------------------------------------------

    def pack(self, rows: slice, leaves: Sequence[Tensor]) -> list[Tensor]:
        """What is stored of the observations of these envs."""
        return [self.frames[k].put(rows, leaf) if k in self.frames else leaf for k, leaf in enumerate(leaves)]

    def make_room(self, steps: int, waiting: Any) -> bool:
        """Before so many steps are stored; `waiting` is the buffer of those whose transitions are not complete. Returns
        whether tensors were replaced."""
        grown = [store.make_room(steps, partial(self._oldest, k, waiting)) for k, store in self.frames.items()]
        return any(grown)

    def _oldest(self, leaf: int, waiting: Any, stored: bool = True) -> int | None:
        """The least number of a frame in use. Numbers grow from step to step, and within a stack."""
        numbers = [waiting.waiting(leaf)[:, 0]]
        if stored:
            numbers.append(self._tensors[f"leaf{leaf}"][: self.size, 0])
        return min((int(part.min()) for part in numbers if len(part)), default=None)

    def frame_states(self, waiting: Any, stored: bool) -> dict[str, Any]:
        """All frames, or without those that only `stored` transitions have. On a CPU they are views."""
        return {str(k): store.state(self._oldest(k, waiting, stored)) for k, store in self.frames.items()}

    def load_frames(self, states: dict[str, Any]) -> None:
        """Continue from `frame_states()`."""
        for k, store in self.frames.items():
            store.load(states[str(k)])

    # --- transitions ------------------------------------------------------------------------------------------------

    def store_masks(self, actions: int) -> None:
        """Keep masks of the next actions from now on; all are allowed in what is there already."""
        if "masks" not in self._tensors:
            self._tensors["masks"] = torch.ones(self.capacity, actions, dtype=torch.bool, device=self.device)

    def add(
        self,
        buffer: Any,
        complete: Complete,
        next_leaves: Sequence[Tensor],
        next_masks: Tensor | None,
    ) -> np.ndarray:
        """Keep transitions that began at places of the `leaves` and `actions` of a buffer; returns where they are."""
        begun, places, outcomes = (torch.from_numpy(part).to(self.device) for part in complete)
        count, tensors = len(complete[0]), self._tensors
        sources = [(f"leaf{k}", leaf, begun) for k, leaf in enumerate(buffer.leaves)]
        sources += [(f"next{k}", leaf, places) for k, leaf in enumerate(next_leaves)]
        sources.append(("actions", buffer.actions, begun))
        if next_masks is not None:
            sources.append(("masks", next_masks, places))
        for there, here in self._spans(count):
            for name, values, index in sources:
                torch.index_select(values, 0, index[here], out=tensors[name][there])
            tensors["outcomes"][there] = outcomes[here]
        slots = np.arange(self._cursor, self._cursor + count) % self.capacity
        self._cursor = (self._cursor + count) % self.capacity
        self.size = min(self.size + count, self.capacity)
        return slots

    def clear(self) -> None:
        """Remove all transitions."""
        self.size = self._cursor = 0

    def _spans(self, count: int) -> Iterator[tuple[slice, slice]]:
        """Where `count` transitions go, and which of them: one stretch, or two around the end."""
        before = min(count, self.capacity - self._cursor)
        yield slice(self._cursor, self._cursor + before), slice(0, before)
        if before < count:
            yield slice(0, count - before), slice(before, count)

    def sample_indices(self, count: int, generator: torch.Generator) -> Tensor:
        """Places of transitions, all equally likely."""
        return torch.randint(self.size, (count,), generator=generator, device=self.device)

    def batch(self, places: Tensor) -> ReplayBatch:
        """The transitions at some places."""
        chosen = {name: tensor.index_select(0, places) for name, tensor in self._tensors.items()}
        for k, store in self.frames.items():
            names = f"leaf{k}", f"next{k}"
            chosen |= zip(names, store.get(*(chosen[name] for name in names)), strict=True)
        return ReplayBatch(
            leaves=[chosen[f"leaf{k}"] for k in range(len(self.leaves))],
            actions=chosen["actions"],
            rewards=chosen["outcomes"][:, 0],
            discounts=chosen["outcomes"][:, 1],
            next_leaves=[chosen[f"next{k}"] for k in range(len(self.leaves))],
            next_masks=chosen.get("masks"),
        )

    def state(self) -> dict[str, Any]:
        """The part that is filled. On a CPU its arrays are views, which hold until the next transition comes."""
        arrays = {name: tensor[: self.size].cpu().numpy() for name, tensor in self._tensors.items()}
        return {"arrays": arrays, "size": self.size, "cursor": self._cursor, "capacity": self.capacity}

    def load(self, state: dict[str, Any]) -> None:
        if state["capacity"] != self.capacity:
            raise CheckpointError(
                f"the replay buffer was saved with buffer_size={state['capacity']} and cannot continue with "
                f"buffer_size={self.capacity}"
            )
        size, cursor = state["size"], state["cursor"]
        if not 0 <= size <= self.capacity or not 0 <= cursor < self.capacity:
            raise CheckpointError(f"{size} transitions, written up to {cursor}, do not fit buffer_size={self.capacity}")
        self.size, self._cursor = size, cursor
        if "masks" in state["arrays"]:
            self.store_masks(state["arrays"]["masks"].shape[1])
        for name, array in state["arrays"].items():
            target = self._tensors[name][: self.size]
            # A checkpoint's arrays may be read-only, of which torch would warn though nothing is written to them.
            if target.device.type == "cpu":
                target.numpy()[...] = array
            else:
                target.copy_(torch.from_numpy(np.array(array)))


def check_capacity(capacity: int, num_envs: int, n_step: int) -> None:
    """One step of all envs can complete this many transitions, which must not overwrite each other."""
    if capacity < num_envs * n_step:
        raise OptionError(
            f"buffer_size={capacity} is too small for {num_envs} envs with n_step={n_step}: "
            f"at least {num_envs * n_step} is needed, and far more to learn well"
        )


def _check_memory(capacity: int, transition: int, device: torch.device) -> None:
    needed = capacity * transition
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    if needed > free:
        raise MemoryShortage(
            f"buffer_size={capacity:,} transitions of {transition:,} bytes take {needed / 2**30:.1f} GiB, and "
            f"{free / 2**30:.1f} GiB are free; buffer_size={int(0.8 * free / transition)} would fit"
        )


def _bytes(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def _resized(tensor: Tensor, rows: int) -> Tensor:
    kept = tensor[:rows]
    return torch.cat([kept, kept.new_zeros(rows - len(kept), *kept.shape[1:])])
