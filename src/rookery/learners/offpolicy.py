"""What SAC and DQN have in common: they record transitions, and owe a number of updates for every step."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.learners.agent import Policy
from rookery.learners.flat_adam import FlatAdam
from rookery.learners.learner import (
    Finals,
    Learner,
    StepBatch,
    Tree,
    generator_state,
    load_generator,
    load_module,
    means,
    module_state,
)
from rookery.learners.networks import Encoder
from rookery.learners.normalize import ReturnScale
from rookery.learners.observations import split, stack
from rookery.learners.options import DQNOptions, SACOptions
from rookery.learners.replay import NStepBuffer, ReplayBatch, ReplayBuffer, check_capacity

Metrics = defaultdict[str, list[Tensor]]
SHOW_EVERY = 32  # updates averaged in the metrics shown: looking at them after each one would cost more than 1 % of it


class OffPolicyPolicy(Policy):
    """A policy over an encoder."""

    encoder: Encoder


class OffPolicy(Learner):
    """Learns from what any policy did. Each step of an env beyond the first `start_steps`, or each round of steps, adds
    `updates_per_step` to a debt, and `update()` pays all of it that is whole: when to learn follows from counts."""

    on_policy = False
    options: SACOptions | DQNOptions
    policy: OffPolicyPolicy
    adams: list[FlatAdam]

    def __init__(
        self,
        policy: OffPolicyPolicy,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        options: SACOptions | DQNOptions,
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
        self.scale = ReturnScale(num_envs, options.gamma).to(device) if options.normalise_rewards else None
        self.steps, self.updates_due = 0, 0.0
        self.learn_from = options.start_steps
        self.refill = 1  # transitions that must be there before any is learned from
        self._metrics: Metrics = defaultdict(list)
        self._shown: dict[str, float] = {}
        self._unshown = 0

    # --- gathering ----------------------------------------------------------------------------------------------

    def record(self, rows: slice, answer: StepBatch) -> None:
        rewards, terminated, truncated = answer.rewards, answer.terminated, answer.truncated
        leaves = split(self.leaves, answer.observations, self.device)
        self.policy.encoder.update_normalisers(leaves)
        if self.scale is not None:
            self._follow(self.scale, rows, rewards, terminated | truncated)
        complete = self.n_step_buffer.complete(rows, rewards, terminated, truncated)
        if len(complete[0]):
            following = self._next_leaves(leaves, answer.finals)
            self._added(self.replay.add(self.n_step_buffer, complete, following, self._next_masks(answer)))
        self.steps += len(rewards)
        if self.replay.size >= self.refill:
            self.updates_due += self.options.updates_per_step * self._counted(len(rewards))

    def _counted(self, steps: int) -> float:
        """How much of what was just recorded asks for updates."""
        after_start = min(steps, max(0, self.steps - self.learn_from))
        return after_start if self.options.updates_each == "step" else after_start / self.num_envs

    def _next_leaves(self, leaves: list[Tensor], finals: Finals | None) -> list[Tensor]:
        """What followed each step: where an episode ended, its last observation and not the next one's first."""
        if not finals:
            return leaves
        places = torch.from_numpy(np.asarray(finals[0], np.int64)).to(self.device)
        lasts = stack(self.leaves, finals[1], self.device)
        return [leaf.index_copy(0, places, last) for leaf, last in zip(leaves, lasts, strict=True)]

    def _next_masks(self, answer: StepBatch) -> Tensor | None:
        """What may be done next, where that is kept."""
        return None

    def _added(self, slots: np.ndarray) -> None:
        """There are new transitions in the replay buffer."""

    def _follow(self, scale: ReturnScale, rows: slice, rewards: np.ndarray, ended: np.ndarray) -> None:
        returns = scale.running[rows]
        returns.mul_(scale.gamma).add_(torch.from_numpy(np.asarray(rewards, np.float32)).to(self.device))
        scale.statistics.update(returns.unsqueeze(-1))
        returns.masked_fill_(torch.from_numpy(ended).to(self.device), 0.0)

    def reset_envs(self, rows: slice) -> None:
        self.n_step_buffer.clear(rows)

    @property
    def update_rows(self) -> int:
        return self.options.batch_size

    # --- learning -----------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        return self.updates_due >= 1.0

    def update(self) -> dict[str, float]:
        for adam in self.adams:
            adam.learning_rate = self.learning_rate
        while self.updates_due >= 1.0:
            self._train_step(self._metrics)
            self.updates_due -= 1.0
            self.updates += 1
            self._unshown += 1
        if self._unshown >= SHOW_EVERY or not self._shown:
            self._shown, self._metrics, self._unshown = means(self._metrics), defaultdict(list), 0
        return self._shown

    @abstractmethod
    def _train_step(self, metrics: Metrics) -> None:
        """One update."""

    def _rewards(self, batch: ReplayBatch) -> Tensor:
        """Scaled by what is known now, so that old and new transitions agree."""
        return batch.rewards if self.scale is None else self.scale.scale(batch.rewards)

    # --- changing course ----------------------------------------------------------------------------------------

    def clear_replay(self) -> None:
        """Learning waits until there is enough for one batch again; no actions are random because of it."""
        self.replay.clear()
        self.n_step_buffer.clear(slice(0, self.num_envs))
        self.updates_due = 0.0
        self.refill = min(self.options.batch_size, self.replay.capacity)

    def _options_changed(self) -> None:
        """A new gamma holds for transitions that are completed from now on; those in the buffer keep theirs."""
        self.n_step_buffer.gamma = self.options.gamma
        if self.scale is not None:
            self.scale.gamma = self.options.gamma

    # --- going on later -----------------------------------------------------------------------------------------

    def resize(self, num_envs: int) -> None:
        check_capacity(self.replay.capacity, num_envs, self.n_step_buffer.n_step)
        self.n_step_buffer.resize(num_envs)
        if self.scale is not None:
            self.scale.resize(num_envs)
        self.num_envs = num_envs

    def state(self, replay: bool = True) -> Tree:
        kept = {"replay": self.replay.state()} if replay else {}
        return kept | {
            "policy": module_state(self.policy),
            "pending": self.n_step_buffer.state(),
            "scale": module_state(self.scale) if self.scale is not None else {},
            "generator": generator_state(self.generator),
            "steps": self.steps,
            "learn_from": self.learn_from,
            "refill": self.refill,
            "debt": self.updates_due,
            "updates": self.updates,
        }

    def load(self, state: Tree) -> None:
        load_module(self.policy, state["policy"])
        self.n_step_buffer.load(state["pending"])
        if self.scale is not None:
            load_module(self.scale, state["scale"])
        load_generator(self.generator, state["generator"])
        self.steps, self.learn_from = state["steps"], state["learn_from"]
        self.refill = state.get("refill", 1)
        self.updates_due, self.updates = state["debt"], state["updates"]
        if "replay" in state:
            self.replay.load(state["replay"])
        else:  # with nothing to learn from, gather first, as at the start
            self.replay.clear()
            self.learn_from, self.updates_due = max(self.learn_from, self.steps + self.options.start_steps), 0.0
