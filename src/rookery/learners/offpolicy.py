"""What off-policy learners have in common: they store transitions, and owe a number of updates for every step."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.learners.flat_adam import FlatAdam
from rookery.learners.learner import Finals, Learner, StepBatch, Tree, means
from rookery.learners.networks import Encoder
from rookery.learners.observations import split, stack
from rookery.learners.policy import Policy
from rookery.learners.replay import NStepBuffer, ReplayBatch, ReplayBuffer, check_capacity

Metrics = defaultdict[str, list[Tensor]]
SHOW_EVERY = 32  # updates averaged in the metrics: reading them after each one would cost more than 1 % of it


class OffPolicyPolicy(Policy):
    """A policy over an encoder."""

    encoder: Encoder


class OffPolicy(Learner):
    """Learns from the steps of any policy. Each step of an env after the first `start_steps`, or each round of steps,
    adds `updates_per_step` to `updates_due`, and `update()` makes as many: when to learn depends on counts only."""

    on_policy = False
    options: Any  # with the fields of `ReplayOptions`
    policy: OffPolicyPolicy
    adams: list[FlatAdam]

    def __init__(
        self,
        policy: OffPolicyPolicy,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        options: Any,
        action: Tensor,
        num_envs: int,
        seed: int,
        device: torch.device,
    ) -> None:
        """`action` is an example of one, as it is stored."""
        super().__init__(policy, observation_space, action_space, options, num_envs, seed, device)
        check_capacity(options.buffer_size, num_envs, options.n_step)
        self.replay = ReplayBuffer(self.leaves, action, options.buffer_size, device)
        self.n_step_buffer = NStepBuffer(self.leaves, action, options.n_step, options.gamma, num_envs, device)
        self.steps, self.updates_due = 0, 0.0
        self.learn_from = options.start_steps
        self.refill = 1  # transitions that must be stored before learning begins
        self.has_images = policy.encoder.is_trained  # or a network of the user's own: the encoder has parameters
        self._metrics: Metrics = defaultdict(list)
        self._shown: dict[str, float] = {}
        self._unshown = 0

    @property
    def bytes_to_fill(self) -> int:
        return self.replay.nbytes if self.device.type == "cpu" else 0

    # --- collecting -------------------------------------------------------------------------------------------------

    def record(self, rows: slice, step: StepBatch) -> None:
        rewards, terminated, truncated = step.rewards, step.terminated, step.truncated
        leaves = split(self.leaves, step.observations, self.device)
        self.policy.encoder.update_normalisers(leaves)
        if self.scale is not None:
            self.scale.update_rows(rows, rewards, terminated | truncated)
        complete = self.n_step_buffer.complete(rows, rewards, terminated, truncated)
        if len(complete[0]):
            following = self._next_leaves(leaves, step.finals)
            self._added(self.replay.add(self.n_step_buffer, complete, following, self._next_masks(step)))
        self.steps += len(rewards)
        if self.replay.size >= self.refill:
            self.updates_due += self.options.updates_per_step * self._counted(len(rewards))

    def _counted(self, steps: int) -> float:
        """How many of the steps just recorded count for `updates_due`."""
        after_start = min(steps, max(0, self.steps - self.learn_from))
        return after_start if self.options.updates_each == "step" else after_start / self.num_envs

    def _next_leaves(self, leaves: list[Tensor], finals: Finals | None) -> list[Tensor]:
        """The observations after each step: where an episode ended, its last one and not the next episode's first."""
        if not finals:
            return leaves
        rows = torch.from_numpy(np.asarray(finals[0], np.int64)).to(self.device)
        lasts = stack(self.leaves, finals[1], self.device)
        return [leaf.index_copy(0, rows, last) for leaf, last in zip(leaves, lasts, strict=True)]

    def _next_masks(self, step: StepBatch) -> Tensor | None:
        """The actions allowed next, if they are stored."""
        return None

    def _added(self, indices: np.ndarray) -> None:
        """There are new transitions in the replay buffer."""

    def reset_envs(self, rows: slice) -> None:
        self.n_step_buffer.clear(rows)

    # --- update -----------------------------------------------------------------------------------------------------

    @property
    def update_rows(self) -> int:
        return self.options.batch_size

    def ready(self) -> bool:
        return self.updates_due >= 1.0

    def update(self) -> dict[str, float]:
        for adam in self.adams:
            adam.learning_rate = self.learning_rate
        while self.updates_due >= 1.0:
            self.train_step(self._metrics)
            self.updates_due -= 1.0
            self.updates += 1
            self._unshown += 1
        if self._unshown >= SHOW_EVERY or not self._shown:
            self._shown, self._metrics, self._unshown = means(self._metrics), defaultdict(list), 0
        return self._shown

    @abstractmethod
    def train_step(self, metrics: Metrics) -> None:
        """One gradient step on a batch of the replay buffer."""

    def scaled_rewards(self, batch: ReplayBatch) -> Tensor:
        """Rewards by the present scale, so that old and new transitions agree."""
        return batch.rewards if self.scale is None else self.scale.scale(batch.rewards)

    # --- changes during a run ---------------------------------------------------------------------------------------

    def clear_replay(self) -> None:
        """Learning waits until there is enough for one batch again; no actions become random because of it."""
        self.replay.clear()
        self.n_step_buffer.clear(slice(0, self.num_envs))
        self.updates_due = 0.0
        self.refill = min(self.options.batch_size, self.replay.capacity)

    def _options_changed(self) -> None:
        """A new gamma holds for transitions completed from now on; those in the buffer keep theirs."""
        super()._options_changed()
        self.n_step_buffer.gamma = self.options.gamma

    def resize(self, num_envs: int) -> None:
        check_capacity(self.replay.capacity, num_envs, self.n_step_buffer.n_step)
        super().resize(num_envs)
        self.n_step_buffer.resize(num_envs)

    # --- save and load ----------------------------------------------------------------------------------------------

    def state(self, replay: bool = True) -> Tree:
        stored = {"replay": self.replay.state()} if replay else {}
        counts = {"steps": self.steps, "learn_from": self.learn_from, "refill": self.refill, "debt": self.updates_due}
        return super().state(replay) | stored | {"pending": self.n_step_buffer.state()} | counts

    def load(self, state: Tree) -> None:
        super().load(state)
        self.n_step_buffer.load(state["pending"])
        self.steps, self.learn_from = state["steps"], state["learn_from"]
        self.refill, self.updates_due = state.get("refill", 1), state["debt"]
        if "replay" in state:
            self.replay.load(state["replay"])
        else:  # with nothing to learn from, collect first, as at the start
            self.replay.clear()
            self.learn_from, self.updates_due = max(self.learn_from, self.steps + self.options.start_steps), 0.0
