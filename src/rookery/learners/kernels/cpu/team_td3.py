"""TD3's accelerator: for perceptrons on a CPU, the gradients of actor and critics written out, on a team of threads.
Tests compare it with the plain code in `td3.py`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.learners.kernels.cpu.net_pass import PackedNets
from rookery.learners.kernels.cpu.team_actor_critic import TeamActorCritic
from rookery.learners.replay_buffer import ReplayBatch


class TeamTD3(TeamActorCritic):
    """The gradient steps of TD3 and REDQ."""

    replaces = ("gradient_step", "td_target", "critic_loss", "actor_loss")

    def __init__(self, learner: Any) -> None:
        count = learner.options.num_critics
        self.policy_critics = 1 if learner.actor_critics is not None else count
        super().__init__(learner)

    def _target_actor(self) -> PackedNets:
        learner = self.learner
        return PackedNets([learner.target_actor.layer_params], learner.target_actor_weights, backward=False)

    @torch.no_grad()
    def gradient_step(
        self, batch: ReplayBatch, weights: Tensor | None, number: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        learner, encoder = self.learner, self.learner.policy.encoder
        update_actor = learner.trains_actor(number)
        passes = self.begin(batch, encoder(batch.leaves), encoder(batch.next_leaves))
        # The critics' step does not change the actor.
        self.forward(passes.both_actor_blocks if update_actor else passes.next_actor_blocks)
        td_target = learner.td_target(batch, lambda features: passes.next_actor.outputs, self._target_values)
        values = passes.values(passes.critics)
        td_error = values - td_target
        self.step_critics(td_error / passes.rows if weights is None else td_error * (weights / passes.rows))
        return values, td_error, self._actor_step() if update_actor else None

    def _target_values(self, features: Tensor, actions: Tensor, members: Tensor | None = None) -> Tensor:
        """The values of the targets; those of the critics are computed with them."""
        passes = self.batch
        passes.set_next_actions(actions)
        self.forward(passes.value_blocks)
        values = passes.values(passes.targets)
        return values if members is None else values[members]

    def _actor_step(self) -> Tensor:
        """One step of the actor; returns its loss before it."""
        actions = self.batch.actor.outputs.tanh()
        values = self.policy_values(actions)
        action_grads = self.action_grads(torch.full_like(values, -1.0 / values.numel()))
        self.actor_gradient(torch.ops.aten.tanh_backward(action_grads, actions))
        self.actor_adam.step(self.learner.options.max_grad_norm)
        return -values.mean()
