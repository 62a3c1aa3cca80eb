"""SAC's and TD3's accelerators on a GPU: backward passes that begin at the nets' outputs.

The gradients of both losses at the outputs are known. So the losses themselves, and autograd's way back through them,
need not be computed: a third of the kernels of an update, and at these sizes each costs as much as a matrix product.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.learners.execution.accelerator import Accelerator
from rookery.learners.replay_buffer import ReplayBatch


class DeviceActorCritic(Accelerator):
    """What both have in common: networks without an image encoder, on a GPU."""

    @classmethod
    def supports(cls, learner: Any) -> bool:
        return learner.device.type == "cuda" and not learner.has_images


class DeviceSAC(DeviceActorCritic):
    """The gradient steps of SAC."""

    def train_step(self, batch: ReplayBatch, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        learner, size = self.learner, len(batch.rewards)
        features = learner.policy.encoder(batch.leaves)
        values = learner.critics(features, batch.actions)
        td_target = learner.td_target(batch, noise[0])
        grads = (values.detach() - td_target) * (1.0 / size)
        learner.critic_adam.descend([values], [grads], learner.options.max_grad_norm)
        return values.detach(), td_target, self._actor_step(features, noise[1])

    def _actor_step(self, features: Tensor, noise: Tensor) -> Tensor:
        """One step of the actor and of the temperature; returns the entropy."""
        learner, size = self.learner, len(features)
        actions, log_probs = learner.policy.sample(features, noise)
        values = learner.frozen_critics(features, actions)
        counts = values.detach() == values.detach().amin(0)  # the smaller value alone
        temperature = learner.log_temperature.detach()
        of_log_probs = (temperature.exp() / size).expand(size)
        entropy = -log_probs.detach().mean()
        known = [entropy - learner.target_entropy] if learner.log_temperature.requires_grad else []
        learner.actor_adam.descend(
            [values, log_probs], [counts * (-1.0 / size), of_log_probs], learner.options.max_grad_norm, known
        )
        return entropy


class DeviceTD3(DeviceActorCritic):
    """The gradient steps of TD3 and REDQ."""

    def train_step(
        self, batch: ReplayBatch, weights: Tensor | None, update_actor: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        learner, size = self.learner, len(batch.rewards)
        td_target, features = learner.td_target(batch), learner.policy.encoder(batch.leaves)
        values = learner.critics(features, batch.actions)
        td_error = values.detach() - td_target
        grads = td_error / size if weights is None else td_error * (weights / size)
        learner.critic_adam.descend([values], [grads], learner.options.max_grad_norm)
        return values.detach(), td_error, self._actor_step(features) if update_actor else None

    def _actor_step(self, features: Tensor) -> Tensor:
        """One step of the actor; returns its loss before it."""
        learner = self.learner
        values = learner.frozen_critics(features, learner.policy(features), learner.actor_critics)
        grads = torch.full_like(values, -1.0 / values.numel())
        learner.actor_adam.descend([values], [grads], learner.options.max_grad_norm)
        return -values.detach().mean()
