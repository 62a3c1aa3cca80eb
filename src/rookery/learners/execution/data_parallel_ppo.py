"""PPO in several processes: each acts for its own envs, and computes its share of every gradient.

With the same seed the numbers are those of one process with all envs, to float tolerance: noise and shuffles are drawn
for all envs everywhere, statistics and moments are those of all rows, and gradients are summed in the order of ranks.
"""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.errors import OptionError
from rookery.learners.algorithms.ppo import METRICS, PPO
from rookery.learners.execution.ranks import Ranks, joined_moments
from rookery.learners.execution.shared_rollout import SharedRollout
from rookery.learners.learner import Tree
from rookery.learners.normalize import RunningNorm
from rookery.learners.registry import PPOOptions


class DataParallelPPO(PPO):
    """The part of a PPO learner that one of several processes has. Between two rollouts `state()` is equal in all of
    them, and is that of one process with all envs."""

    rollout: SharedRollout

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        options: PPOOptions,
        num_envs: int,
        seed: int = 0,
        device: torch.device | str = "cpu",
        *,
        ranks: Ranks,
    ) -> None:
        """`num_envs` is that of all processes together."""
        if num_envs % ranks.size:
            raise OptionError(f"{num_envs} envs cannot be split over {ranks.size} processes")
        self.ranks, self.processes, self.rank = ranks, ranks.size, ranks.rank
        super().__init__(observation_space, action_space, options, num_envs // ranks.size, seed, device)
        self._all_rows = {
            name: np.zeros((num_envs, *rows.shape[1:]), np.float32) for name, rows in self._per_env().items()
        }
        self.adam.on_gradient = self._sum_gradients
        for part in (self.policy, self.scale):
            for norm in part.modules() if part is not None else ():
                if isinstance(norm, RunningNorm):
                    norm.of_all = joined_moments(ranks)

    @property
    def _own(self) -> slice:
        """This process's rows among those of all."""
        return slice(self.ranks.rank * self.num_envs, (self.ranks.rank + 1) * self.num_envs)

    def _new_rollout(self) -> SharedRollout:
        length, memory_size = self.options.rollout_length, self.policy.memory_size
        return SharedRollout(self.leaves, self.head, length, self.num_envs, memory_size, self.device, ranks=self.ranks)

    def sample_noise(self) -> Tensor:
        rows = self.num_envs * self.ranks.size
        return self.head.sample_noise(self.rollout.length, rows, generator=self.generator)[:, self._own].contiguous()

    @property
    def minibatches(self) -> int:
        rows, size = self.options.rollout_length * self.num_envs * self.ranks.size, self.options.batch_size
        return self.options.minibatches if size is None else max(1, -(-rows // size))

    # --- updating -------------------------------------------------------------------------------------------------

    def learn(self) -> Tensor:
        before = self.options
        self.options = before.model_copy(
            update={"normalise_advantages": False}
        )  # minibatches come with them normalised
        try:
            with self.rollout.joined(before.normalise_advantages):
                metrics = super().learn()
        finally:
            self.options = before
        self._all_rows = {name: self._joined_rows(rows) for name, rows in self._per_env().items()}
        return metrics

    def train_step(self, minibatch: dict[str, Tensor], clip: float | Tensor) -> Tensor:
        weight = self.rollout.weight
        metrics = super().train_step(minibatch, clip) if weight else self._step_without_rows()
        return self.ranks.sum_(metrics * weight)

    def _step_without_rows(self) -> Tensor:
        """In a minibatch with fewer rows than there are processes."""
        self.adam.gradient.zero_()
        self.adam.step(self.options.max_grad_norm)
        return torch.zeros(len(METRICS), device=self.device)

    def _sum_gradients(self, gradient: Tensor) -> None:
        self.ranks.sum_(gradient.mul_(self.rollout.weight))

    # --- save and load: rows of all processes ---------------------------------------------------------------------

    def _per_env(self) -> dict[str, Tensor]:
        """What the learner keeps for each env between two rollouts."""
        kept = {"memory": self.memory} if self.policy.memory_size else {}
        return kept if self.scale is None else kept | {"running": self.scale.running}

    def _joined_rows(self, rows: Tensor) -> np.ndarray:
        return self.ranks.join(rows, 0).cpu().numpy()

    def reset_envs(self, rows: slice) -> None:
        super().reset_envs(rows)
        if "memory" in self._all_rows:
            self._all_rows["memory"] = np.zeros_like(self._all_rows["memory"])

    def state(self, replay: bool = True) -> Tree:
        state = super().state(replay)
        rows = self.num_envs * self.ranks.size
        state["memory"] = self._all_rows.get("memory", np.zeros((rows, 0), np.float32)).copy()
        if self.scale is not None:
            state["scale"]["running"] = self._all_rows["running"].copy()
        return state | {"rollout": {}}

    def load(self, state: Tree) -> None:
        own = {**state, "memory": state["memory"][self._own], "rollout": {}}
        if self.scale is not None:
            own["scale"] = {**state["scale"], "running": state["scale"]["running"][self._own]}
            self._all_rows["running"] = np.array(state["scale"]["running"])
        if self.policy.memory_size:
            self._all_rows["memory"] = np.array(state["memory"])
        super().load(own)
