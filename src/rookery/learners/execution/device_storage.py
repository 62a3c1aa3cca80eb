"""Where an off-policy learner's steps and transitions lie on a device: counts are tensors too, so that captured work
can write and sample without waiting, and every tensor stays where it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.errors import CheckpointError
from rookery.learners.frame_store import DeviceFrameStore
from rookery.learners.learner_spec import Colour
from rookery.learners.noise import STRETCH, Epsilon, coloured, exponent_of
from rookery.learners.observations import Leaf
from rookery.learners.replay_buffer import Complete, ReplayBuffer

RESULTS = ("rewards", "terminated", "ended")


class DeviceReplay(ReplayBuffer):
    """A replay buffer for updates that a CUDA graph replays. It takes transitions from the host (`add`), or a round of
    them from tensors (`write`, and `count` on the host: a graph replays the first, never the second)."""

    frame_store = DeviceFrameStore

    def __init__(
        self, leaves: Sequence[Leaf], action: Tensor, capacity: int, device: torch.device, *stacks: int
    ) -> None:
        self.places = torch.zeros(2, dtype=torch.int64, device=device)  # how many there are, and where the next goes
        super().__init__(leaves, action, capacity, device, *stacks)

    def add(
        self, buffer: Any, complete: Complete, next_leaves: Sequence[Tensor], next_masks: Tensor | None
    ) -> np.ndarray:
        slots = super().add(buffer, complete, next_leaves, next_masks)
        self._tell()
        return slots

    def write(self, rows: dict[str, Tensor]) -> Tensor:
        """Keep one transition of each row; returns where they are. Nothing is counted on the host."""
        count = len(rows["outcomes"])
        filled, cursor = self.places
        places = (cursor + torch.arange(count, device=self.device)) % self.capacity
        for name, values in rows.items():
            self._tensors[name].index_copy_(0, places, values)
        self.places.copy_(torch.stack([(filled + count).clamp(max=self.capacity), (cursor + count) % self.capacity]))
        return places

    def count(self, rows: int) -> None:
        """So many transitions were written."""
        self.size = min(self.size + rows, self.capacity)
        self._cursor = (self._cursor + rows) % self.capacity

    def sample_indices(self, count: int, generator: torch.Generator) -> Tensor:
        """Places of transitions, all equally likely. Their number is read on the device."""
        drawn = torch.randint(2**62, (count,), generator=generator, device=self.device)
        return drawn % self.places[0]  # one place is likelier than another by less than 2^-30

    def clear(self) -> None:
        super().clear()
        self.places.zero_()

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self._tell()

    def _tell(self) -> None:
        """Bring the counts to the device, without waiting for it."""
        self.places[0].fill_(self.size)
        self.places[1].fill_(self._cursor)


class DeviceNStep:
    """The last n rounds. Each round completes one transition of every env: the one that began n - 1 rounds before.

    So the number of transitions depends on no data, and the host knows it. Where an episode ended in between, the
    transition ends there too. The n-step buffer on the host finds the same ones, those before an episode's end sooner.
    """

    def __init__(
        self, leaves: Sequence[Leaf], action: Tensor, n_step: int, gamma: float, num_envs: int, device: torch.device
    ) -> None:
        """`action` is an example of one."""
        self.n_step, self.gamma, self.device = n_step, gamma, device
        self._plan = {f"leaf{k}": (leaf.shape, leaf.dtype) for k, leaf in enumerate(leaves)}
        self._plan |= {f"next{k}": (leaf.shape, leaf.dtype) for k, leaf in enumerate(leaves)}
        self._plan |= {"actions": (tuple(action.shape), action.dtype), "rewards": ((), torch.float32)}
        self._plan |= {"terminated": ((), torch.bool), "ended": ((), torch.bool)}
        self.slot = torch.zeros(1, dtype=torch.int64, device=device)  # of the round that is being made
        self.rounds = 0  # how many are stored, on the host: a graph that is replayed does not count them
        self.resize(num_envs)

    def resize(self, num_envs: int) -> None:
        """Another number of envs; all stored steps are discarded."""
        shape = self.n_step, num_envs
        self._rings = {
            name: torch.zeros(*shape, *part, dtype=dtype, device=self.device)
            for name, (part, dtype) in self._plan.items()
        }
        self.rounds = 0

    @property
    def tensors(self) -> list[Tensor]:
        return [self.slot, *self._rings.values()]

    @property
    def completes(self) -> bool:
        """Whether the next round completes transitions."""
        return self.rounds >= self.n_step - 1

    def count(self) -> None:
        """A round was stored."""
        self.rounds = min(self.rounds + 1, self.n_step - 1)

    def store(self, leaves: Sequence[Tensor], actions: Tensor) -> None:
        """Observations and actions of all envs in the next step."""
        for k, leaf in enumerate(leaves):
            self._put(f"leaf{k}", leaf)
        self._put("actions", actions)

    def store_masks(self, actions: int) -> None:
        """Keep masks of the next actions from now on; all are allowed in what is there already."""
        if "masks" not in self._plan:
            self._plan["masks"] = (actions,), torch.bool
            shape = *self._rings["rewards"].shape, actions
            self._rings["masks"] = torch.ones(shape, dtype=torch.bool, device=self.device)

    def complete(
        self,
        rewards: Tensor,
        terminated: Tensor,
        ended: Tensor,
        next_leaves: Sequence[Tensor],
        next_masks: Tensor | None = None,
    ) -> dict[str, Tensor] | None:
        """The results of that step. Returns the transitions that it completes, by the names of the replay buffer."""
        for name, values in zip(RESULTS, (rewards, terminated, ended), strict=True):
            self._put(name, values)
        for k, leaf in enumerate(next_leaves):
            self._put(f"next{k}", leaf)
        if next_masks is not None:
            self._put("masks", next_masks)
        made = self._transitions() if self.completes else None
        self.slot.copy_((self.slot + 1) % self.n_step)
        return made

    def _put(self, name: str, values: Tensor) -> None:
        ring = self._rings[name]
        ring.index_copy_(0, self.slot, values.to(ring.dtype).unsqueeze(0))

    def _transitions(self) -> dict[str, Tensor]:
        """Those that began in the oldest round."""
        order = (self.slot + 1 + torch.arange(self.n_step, device=self.device)) % self.n_step  # oldest first
        rewards, terminated, ended = (self._rings[name].index_select(0, order) for name in RESULTS)
        lasts = torch.zeros_like(ended[0], dtype=torch.int64)  # where each transition ends, in rounds after the first
        alive, total = torch.ones_like(ended[0]), rewards[0]
        discounts = torch.full_like(total, self.gamma)
        for k in range(1, self.n_step):
            alive = alive & ~ended[k - 1]
            total = torch.where(alive, total + self.gamma**k * rewards[k], total)
            discounts = torch.where(alive, self.gamma ** (k + 1), discounts)
            lasts = lasts + alive
        at_end = terminated.gather(0, lasts.unsqueeze(0)).squeeze(0)
        outcomes = torch.stack([total, discounts.masked_fill(at_end, 0.0)], 1)
        places = order[lasts], torch.arange(len(lasts), device=self.device)
        first = {name: ring.index_select(0, order[:1])[0] for name, ring in self._rings.items() if _is_first(name)}
        following = {name: ring[places] for name, ring in self._rings.items() if _is_last(name)}
        return first | following | {"outcomes": outcomes}

    def waiting(self, leaf: int) -> Tensor:
        """That part of the observations of the rounds whose transitions are not complete yet."""
        slots = (self.slot - 1 - torch.arange(self.rounds, device=self.device)) % self.n_step
        return self._rings[f"leaf{leaf}"].index_select(0, slots).flatten(0, 1)

    def clear(self, rows: slice) -> None:
        """The episodes of these envs were broken off from outside: transitions of their stored steps end there."""
        newest = (self.slot - 1) % self.n_step
        ended = self._rings["ended"].index_select(0, newest)
        ended[:, rows] = True
        self._rings["ended"].index_copy_(0, newest, ended)

    def discard(self) -> None:
        """Forget all stored steps."""
        self.rounds = 0

    def state(self) -> dict[str, Any]:
        """All stored steps."""
        arrays = {name: ring.cpu().numpy().copy() for name, ring in self._rings.items()}
        return arrays | {"slot": self.slot.cpu().numpy().copy(), "rounds": self.rounds}

    def load(self, state: dict[str, Any]) -> None:
        if "masks" in state:
            self.store_masks(state["masks"].shape[2])
        slot, rounds = np.array(state["slot"]), state["rounds"]
        if slot.shape != (1,) or not 0 <= slot[0] < self.n_step or not 0 <= rounds < self.n_step:
            raise CheckpointError(f"the saved n-step queues do not fit n_step={self.n_step}")
        for name, ring in self._rings.items():
            ring.copy_(torch.from_numpy(np.array(state[name])))
        self.slot.copy_(torch.from_numpy(slot))
        self.rounds = rounds


def _is_first(name: str) -> bool:
    return name.startswith("leaf") or name == "actions"


def _is_last(name: str) -> bool:
    return name.startswith("next") or name == "masks"


class DeviceNoise:
    """Noise for all envs at once. Gaussian noise is drawn for each round; coloured noise for many rounds ahead, and
    which of them is the present one is on the device too."""

    def __init__(self, colour: Colour, num_envs: int, size: int, generator: torch.Generator) -> None:
        self.exponent, self.size, self._generator = exponent_of(colour), size, generator
        self._round = torch.zeros(1, dtype=torch.int64, device=generator.device)
        self.resize(num_envs)

    @property
    def tensors(self) -> list[Tensor]:
        """What `sample` changes."""
        return [self._round]

    def resize(self, num_envs: int) -> None:
        """Another number of envs; all noise is drawn again."""
        self._envs, self._used = num_envs, STRETCH
        steps = STRETCH if self.exponent else 0
        self._drawn = torch.zeros(steps, num_envs, self.size, device=self._generator.device)

    def before_round(self) -> None:
        """On the host, before each `sample`: draw more if all is used."""
        if not self.exponent:
            return
        if self._used == STRETCH:
            self._drawn.copy_(coloured(self.exponent, (STRETCH, self._envs, self.size), self._generator))
            self._round.zero_()
            self._used = 0
        self._used += 1

    def sample(self, rows: slice) -> Tensor:
        """For one step of all envs, [envs, size]."""
        if not self.exponent:
            device = self._generator.device
            return torch.randn(self._envs, self.size, generator=self._generator, device=device)
        noise = self._drawn.index_select(0, self._round)[0]
        self._round.add_(1)
        return noise

    def state(self) -> dict[str, Any]:
        """The noise drawn so far, and how much of it is used."""
        return {"stretch": self._drawn.cpu().numpy().copy(), "rounds": self._used}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from `state()`; noise that was drawn for another kind of envs is drawn again."""
        if "stretch" in state:
            self._drawn.copy_(torch.from_numpy(np.array(state["stretch"])))
            self._used = state["rounds"]
            self._round.fill_(self._used)


class DeviceEpsilon(Epsilon):
    """The share of random actions as tensors: its schedule is filled in before each round."""

    def __init__(self, options: Any, num_envs: int, device: torch.device) -> None:
        super().__init__(options, num_envs, device)
        self.fallen = torch.ones((), device=device)
        self._present = torch.zeros((), device=device)

    @property
    def tensors(self) -> list[Tensor]:
        """What a round changes."""
        return [self.fallen]

    def before_round(self, steps: int) -> None:
        """On the host, before each `share`."""
        self._present.fill_(super()._scheduled(steps))

    def _scheduled(self, steps: int) -> Any:
        return self._present

    def _decayed(self) -> Any:
        return (self._options.epsilon_start * self.fallen).clamp(min=self._options.epsilon_end)

    def count(self, episodes: Any) -> None:
        """Of a tensor, so that captured work counts them."""
        if self._options.epsilon_decay is not None:
            self.fallen.mul_(self._options.epsilon_decay**episodes)

    def load(self, fallen: float) -> None:
        self.fallen.fill_(fallen)
