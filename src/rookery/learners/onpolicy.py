"""What on-policy learners have in common: a rollout that is filled, learned from and discarded."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.learners.flat_adam import FlatAdam
from rookery.learners.heads import Head
from rookery.learners.learner import Learner, Tree
from rookery.learners.policy import Policy
from rookery.learners.rollout import Rollout


class OnPolicy(Learner):
    """Fills a rollout with the steps of its present policy, and is ready to update when it is full."""

    on_policy = True
    options: Any
    adam: FlatAdam

    def __init__(
        self,
        policy: Policy,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        options: Any,
        head: Head,
        num_envs: int,
        seed: int,
        device: torch.device,
    ) -> None:
        super().__init__(policy, observation_space, action_space, options, num_envs, seed, device)
        self.head = head
        self.memory = torch.zeros(num_envs, policy.memory_size, device=device)  # of recurrent policies
        self.rollout = self._new_rollout()

    def _new_rollout(self) -> Rollout:
        length, memory_size = self.options.rollout_length, self.policy.memory_size
        return Rollout(self.leaves, self.head, length, self.num_envs, memory_size, self.device)

    def begin_rollout(self) -> int:
        """Sample the noise of a new rollout, if one begins; returns how many steps the present one has."""
        if self.rollout.noise is None:
            self.rollout.begin(self.sample_noise().to(self.device), self.memory)  # the generator may be a GPU's
            self.accelerator.invalidate()
        return self.rollout.steps_made(slice(0, None))

    def sample_noise(self) -> Tensor:
        """What the actions of a rollout are sampled with, [steps, envs, noise]."""
        return self.head.sample_noise(self.rollout.length, self.num_envs, generator=self.generator)

    def ready(self) -> bool:
        return self.rollout.full

    @property
    def steps_until_update(self) -> int:
        return self.rollout.length - self.rollout.steps_made(slice(0, None))

    @property
    def steps_since_update(self) -> int:
        return self.rollout.recorded

    @property
    def can_resize(self) -> bool:
        return self.rollout.noise is None

    @property
    def minibatches(self) -> int:
        """How many minibatches an epoch has."""
        rows, size = self.options.rollout_length * self.num_envs, self.options.batch_size
        return self.options.minibatches if size is None else max(1, -(-rows // size))

    @property
    def update_rows(self) -> int:
        return -(-self.options.rollout_length * self.num_envs // self.minibatches)

    def reset_envs(self, rows: slice) -> None:
        """A rollout is one piece: it starts again for all envs."""
        self.memory[rows] = 0.0
        self.rollout.clear()

    def clear_replay(self) -> None:
        """Nothing to clear: a rollout is discarded after each update."""

    def resize(self, num_envs: int) -> None:
        super().resize(num_envs)
        kept = self.memory[:num_envs]
        self.memory = torch.cat([kept, kept.new_zeros(num_envs - len(kept), kept.shape[1])])
        self.rollout = self._new_rollout()

    def device_state(self) -> list[Tensor]:
        """What an update changes, apart from the rollout: captured work on a GPU must leave it as it was when it is
        tried first."""
        scale = [] if self.scale is None else list(self.scale.buffers())
        return [self.adam.flat, *self.adam.moments, self.adam.steps, *self.policy.buffers(), *scale]

    def set_schedules(self) -> None:
        """The numbers of the next update that follow schedules."""
        raise NotImplementedError

    def learn(self) -> Tensor:
        """Learn from the full rollout; returns metrics in the order of `ppo.METRICS`, without waiting for a GPU."""
        raise NotImplementedError

    def state(self, replay: bool = True) -> Tree:
        self.accelerator.flush()
        return super().state(replay) | {
            "adam": self.adam.state(),
            "memory": self.memory.cpu().numpy().copy(),
            "rollout": self.rollout.state(),
        }

    def load(self, state: Tree) -> None:
        super().load(state)
        self.adam.load(state["adam"])
        self.memory.copy_(torch.from_numpy(np.array(state["memory"])))
        self.rollout.load(state["rollout"])
        if not self.accelerator.stores_values:  # saved on another device
            self.rollout.values = None
