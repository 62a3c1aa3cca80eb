"""PPO whose gradients other processes help to compute: the process that has the whole rollout leads them.

Helpers keep nothing between two updates: every update begins with the leader's weights and optimizer. If one of them is
lost, the update is done again from its beginning with another one in its place, so that no number depends on it.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from rookery.learners.algorithms.ppo import PPO
from rookery.learners.execution.gloo_ranks import RankLost
from rookery.learners.execution.ranks import Ranks
from rookery.learners.execution.shared_update import Columns, OwnRows, SharedUpdate, envs_of
from rookery.learners.learner import Tree, generator_state, load_generator, load_module, module_state
from rookery.learners.registry import PPOOptions


class Helpers(Protocol):
    """The other processes."""

    def begin(self, common: Tree, columns: Columns) -> Ranks:
        """Send them an update: what all need, and of the columns [steps, envs, ...] the envs that each has."""

    def end(self) -> None:
        """The update is done."""

    def mend(self, error: RankLost) -> None:
        """One of them is lost: find out which, and let another take its place."""


class LeadingPPO(PPO):
    """Until it gets `helpers` it is ordinary PPO. With a `twin`, a learner like it on a GPU, it acts and keeps its
    rollouts on the CPU, and the twin makes its part of the updates."""

    helpers: Helpers | None = None
    twin: PPO | None = None

    def learn(self) -> Tensor:
        if self.helpers is None:
            return super().learn()
        metrics = self._learn_with(self.helpers)
        self.policy.encoder.update_normalisers(self.rollout.flat_leaves())
        return metrics

    def _learn_with(self, helpers: Helpers) -> Tensor:
        columns = self.rollout.columns(self.evaluate_rollout())
        common = self._common(columns["advantages"])
        while True:
            try:
                ranks = helpers.begin(common, columns)
                metrics = self._update_with(ranks, common, columns)
                helpers.end()
                return metrics
            except RankLost as error:
                helpers.mend(error)
                begin_update(self, common)

    def _update_with(self, ranks: Ranks, common: Tree, columns: Columns) -> Tensor:
        if self.twin is None:
            return self._shared_update(ranks, columns).learn()
        envs = envs_of(ranks.rank, ranks.size, self.num_envs)
        metrics = help_update(
            self.twin, ranks, common, {name: value[:, envs].numpy() for name, value in columns.items()}
        )
        self._take(self.twin)
        return metrics

    def _take(self, twin: PPO) -> None:
        """What an update has changed."""
        load_module(self.policy, module_state(twin.policy))
        self.adam.load(twin.adam.state())
        load_generator(self.generator, generator_state(twin.generator))
        self.accelerator.invalidate()

    def _shared_update(self, ranks: Ranks, columns: Columns) -> SharedUpdate:
        envs = envs_of(ranks.rank, ranks.size, self.num_envs)
        own = {name: value[:, envs] for name, value in columns.items()}
        return SharedUpdate(self, ranks, OwnRows(own, envs, columns["advantages"]), self.minibatches)

    def _common(self, advantages: Tensor) -> Tree:
        """What an update begins with, in every process."""
        return {
            "policy": module_state(self.policy),
            "adam": self.adam.state(),
            "generator": generator_state(self.generator),
            "options": self.options,
            "numbers": {"learning_rate": self.adam.learning_rate, "clip": self.clip, "minibatches": self.minibatches},
            "advantages": advantages.numpy(),
        }


def begin_update(learner: PPO, common: Tree) -> None:
    """Bring a learner to where an update begins."""
    learner.options = common["options"]
    load_module(learner.policy, common["policy"])
    learner.adam.load(common["adam"])
    load_generator(learner.generator, common["generator"])
    learner.adam.learning_rate, learner.clip = common["numbers"]["learning_rate"], common["numbers"]["clip"]
    learner.accelerator.invalidate()


def helping_ppo(spaces: tuple[Any, Any], options: PPOOptions, device: torch.device) -> PPO:
    """A learner that makes updates of another one's rollouts. It draws the shuffles of a CPU wherever it is."""
    learner = LeadingPPO(*spaces, options, 1, 0, device)
    learner.generator = torch.Generator()
    return learner


def help_update(learner: PPO, ranks: Ranks, common: Tree, columns: dict[str, Any]) -> Tensor:
    """An update, in a process that helps, or on the GPU of the one that leads; `columns` are arrays of the envs of its
    rank. Returns METRICS."""
    begin_update(learner, common)
    own = {name: torch.from_numpy(value).to(learner.device) for name, value in columns.items()}
    advantages = torch.from_numpy(common["advantages"]).to(learner.device)
    rows = OwnRows(own, envs_of(ranks.rank, ranks.size, advantages.shape[1]), advantages)
    return SharedUpdate(learner, ranks, rows, common["numbers"]["minibatches"]).learn()
