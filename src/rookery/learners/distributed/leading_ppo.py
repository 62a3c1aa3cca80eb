"""PPO whose gradients other processes help to compute: the process that has the whole rollout leads them.

Helpers keep nothing between two updates: every update begins with the leader's weights and optimizer. If one of them is
lost, the update is done again from its beginning with another one in its place, so that no number depends on it.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from rookery.learners.distributed.gloo_ranks import RankLost
from rookery.learners.distributed.ranks import Ranks
from rookery.learners.distributed.shared_update import Columns, OwnRows, SharedUpdate, envs_of
from rookery.learners.learner import Tree, generator_state, load_generator, load_module, module_state
from rookery.learners.ppo import PPO


class Helpers(Protocol):
    """The other processes."""

    def begin(self, common: Tree, columns: Columns) -> Ranks:
        """Send them an update: what all need, and of the columns [steps, envs, ...] the envs that each has."""

    def end(self) -> None:
        """The update is done."""

    def mend(self, error: RankLost) -> None:
        """One of them is lost: find out which, and let another take its place."""


class LeadingPPO(PPO):
    """Until it gets `helpers` it is ordinary PPO."""

    helpers: Helpers | None = None

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
                metrics = self._shared_update(ranks, columns).learn()
                helpers.end()
                return metrics
            except RankLost as error:
                helpers.mend(error)
                begin_update(self, common)

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


def help_update(learner: PPO, ranks: Ranks, common: Tree, columns: dict[str, Any]) -> None:
    """An update, in a process that helps; `columns` are arrays of the envs of its rank."""
    begin_update(learner, common)
    own = {name: torch.from_numpy(value) for name, value in columns.items()}
    advantages = torch.from_numpy(common["advantages"])
    rows = OwnRows(own, envs_of(ranks.rank, ranks.size, advantages.shape[1]), advantages)
    SharedUpdate(learner, ranks, rows, common["numbers"]["minibatches"]).learn()
