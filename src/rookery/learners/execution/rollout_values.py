"""How a learner of values of actions is executed on rollouts: PQN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rookery.learners.execution.rollout_host import RolloutHost
from rookery.learners.learner import StepBatch, Tree


class ValueRollout(RolloutHost):
    """As for an actor and a critic, with two differences. The outputs that were stored while acting are the values, and
    the share of random actions is set once for each rollout.

    Of the algorithm it calls `epsilon` and `exploration` too, and `gradient_step` without a clip range."""

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self._epsilon_at = 0.0  # the progress of the run by which an update has set it for the next rollout
        self.epsilon = torch.tensor(learner.epsilon(0.0), device=learner.device)  # captured work reads it there

    def sample_noise(self) -> Tensor:
        return self.learner.exploration(self.rollout.length, self.learner.num_envs, self.epsilon)

    def record(self, rows: slice, step: StepBatch) -> None:
        super().record(rows, step)
        if step.mask is not None and self.rollout.steps_made(rows) == self.rollout.length:
            self.rollout.store_last_mask(rows, step.mask)

    def acted_values(self) -> Tensor:
        return self.learner.policy.best(self.rollout.outputs)

    def last_values(self) -> Tensor:
        return self.learner.values(self.learner.features(self.rollout.last), self.rollout.last_masks)

    def targets(self, *outcome: Tensor) -> dict[str, Tensor]:
        return self.learner.targets(*outcome)

    def follow_schedules(self) -> float:
        self.learner.adam.learning_rate = self.learner.learning_rate
        self._set_epsilon(self.learner.progress)
        return 0.0

    def _set_epsilon(self, progress: float) -> None:
        self._epsilon_at = progress
        self.epsilon.fill_(self.learner.epsilon(progress))

    def options_changed(self) -> None:
        self._set_epsilon(self._epsilon_at)

    def learn_plainly(self, clip: float | Tensor) -> Tensor:
        learner, samples, metrics = self.learner, self.evaluate_rollout(), []
        for _ in range(learner.options.epochs):
            for minibatch in self.rollout.minibatches(samples, self.minibatches, learner.generator):
                latest = learner.gradient_step(minibatch)
            metrics.append(latest)
        return torch.stack(metrics).mean(0)

    def workload(self) -> Callable[[], None]:
        policy, leaves = self.learner.policy, self.zero_leaves(self.update_rows)
        return lambda: policy(leaves).mean().backward()

    def state(self, replay: bool) -> Tree:
        return {**super().state(replay), "epsilon_at": self._epsilon_at}

    def load(self, state: Tree) -> None:
        super().load(state)
        self._set_epsilon(state["epsilon_at"])
