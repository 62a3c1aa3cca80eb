"""Transitions of n steps from rounds in which all envs step at once, in tensors, without waiting for the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.errors import CheckpointError
from rookery.learners.observations import Leaf

RESULTS = ("rewards", "terminated", "ended")


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
        """What changes."""
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
        """Continue from `state()`."""
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
