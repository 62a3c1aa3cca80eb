"""TD3's accelerator: for perceptrons on a CPU, the gradients of actor and critics written out.

Two thirds of autograd's time for batches of 256 rows are matrix products; this saves part of the other third. Tests
compare it with the plain code in `td3.py`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.learners.accelerator import Accelerator
from rookery.learners.kernels.cpu.perceptron import KINDS, FusedMLP, members_of
from rookery.learners.networks import EnsembleMLP
from rookery.learners.replay_buffer import ReplayBatch


class FusedTD3(Accelerator):
    """For two critics, and networks without an image encoder, on a CPU. The products of a larger ensemble (REDQ) are
    faster in one batch, as the plain code has them."""

    replaces = ("gradient_step", "td_target", "critic_loss", "actor_loss")

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        kind = KINDS[learner.policy.net.activation_name]
        self._actor = FusedMLP(learner.policy.net.layer_params, kind)
        self._target_actor = FusedMLP(learner.target_actor.layer_params, kind)
        self._critics = fused_members(learner.critics.ensemble, kind)
        self._targets = fused_members(learner.targets.ensemble, kind)

    @classmethod
    def supports(cls, learner: Any) -> bool:
        known = learner.policy.net.activation_name in KINDS and learner.options.num_critics <= 2
        return known and not learner.has_images and learner.device.type == "cpu"

    @torch.no_grad()
    def gradient_step(
        self, batch: ReplayBatch, weights: Tensor | None, number: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        learner = self.learner
        td_target = learner.td_target(batch, self._target_actor.forward, self._target_values)
        features = learner.policy.encoder(batch.leaves)
        values = self._values(self._critics, features, batch.actions)
        td_error = values - td_target
        grads = td_error / td_error.shape[1] if weights is None else td_error * (weights / td_error.shape[1])
        for critic, grad in zip(self._critics, grads, strict=True):
            critic.backward(grad.unsqueeze(1))
        learner.critic_adam.step(learner.options.max_grad_norm)
        return values, td_error, self._actor_step(features) if learner.trains_actor(number) else None

    def _target_values(self, features: Tensor, actions: Tensor, members: Tensor | None = None) -> Tensor:
        chosen = self._targets if members is None else [self._targets[k] for k in members.tolist()]
        return self._values(chosen, features, actions)

    @staticmethod
    def _values(critics: list[FusedMLP], features: Tensor, actions: Tensor) -> Tensor:
        inputs = torch.cat([features, actions], -1)
        return torch.stack([critic.forward(inputs).squeeze(1) for critic in critics])

    def _actor_step(self, features: Tensor) -> Tensor:
        """One step of the actor; returns its loss before it."""
        learner = self.learner
        actions = self._actor.forward(features).tanh()
        values = self._critics[0].forward(torch.cat([features, actions], -1))
        action_grads = self._critics[0].input_grads(torch.full_like(values, -1.0 / len(values)))[:, features.shape[1] :]
        self._actor.backward(torch.ops.aten.tanh_backward(action_grads, actions))
        learner.actor_adam.step(learner.options.max_grad_norm)
        return -values.mean()


def fused_members(ensemble: EnsembleMLP, kind: int) -> list[FusedMLP]:
    """Each member of an ensemble, on the ensemble's own memory."""
    return [FusedMLP(layers, kind) for layers in members_of(ensemble)]
