"""SAC's and TD3's accelerators on a GPU: backward passes that begin at the nets' outputs.

The gradients of both losses at the outputs are known. So the losses themselves, and autograd's way back through them,
need not be computed: a third of the kernels of an update, and at these sizes each costs as much as a matrix product.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.learners.accelerator import Accelerator
from rookery.learners.heads import LOG_STD
from rookery.learners.kernels.gpu.triton_support import find_triton
from rookery.learners.replay_buffer import ReplayBatch

MOST_ATOMS = 256  # of which a block of threads compares all pairs


class SquashedSAC(Accelerator):
    """SAC's samples by two kernels, for any networks on a GPU."""

    replaces: tuple[str, ...] = ("sample",)

    @classmethod
    def supports(cls, learner: Any) -> bool:
        return learner.device.type == "cuda" and find_triton()

    def sample(self, features: Tensor, noise: Tensor, log_probs: bool = True) -> tuple[Tensor, Tensor | None]:
        from rookery.learners.kernels.gpu.squash_kernels import SquashedSample

        return SquashedSample.apply(self.learner.policy.net(features), noise, *LOG_STD)


class SquashedXQC(SquashedSAC):
    """The same for XQC, and its projection by one kernel."""

    replaces = ("sample", "projected")

    @classmethod
    def supports(cls, learner: Any) -> bool:
        return super().supports(learner) and learner.options.atoms <= MOST_ATOMS

    def projected(self, probabilities: Tensor, places: Tensor) -> Tensor:
        """As the algorithm's."""
        from rookery.learners.kernels.gpu.atom_kernels import projected

        return projected(probabilities, places)

    def sample(self, features: Tensor, noise: Tensor, log_probs: bool = True, by_batch: bool = False) -> Any:
        from rookery.learners.kernels.gpu.squash_kernels import SquashedSample

        return SquashedSample.apply(self.learner.policy.net(features, by_batch)[0], noise, *LOG_STD)


class DeviceSAC(Accelerator):
    """The gradient steps of SAC, for networks without an image encoder on a GPU."""

    replaces = ("gradient_step", "critic_loss", "actor_loss", "sample")

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        if SquashedSAC.supports(learner):
            self.sample = SquashedSAC(learner).sample

    @classmethod
    def supports(cls, learner: Any) -> bool:
        return learner.device.type == "cuda" and not learner.has_images

    def gradient_step(self, batch: ReplayBatch, weights: Tensor | None, number: int) -> tuple[Tensor, Tensor, Tensor]:
        learner, size, noise = self.learner, len(batch.rewards), self.learner.step_noise()
        features = learner.policy.encoder(batch.leaves)
        values = learner.critics(features, batch.actions)
        td_target = learner.td_target(batch, noise[0])
        grads = (values.detach() - td_target) * (1.0 / size)
        learner.critic_adam.descend([values], [grads], learner.options.max_grad_norm)
        return values.detach(), td_target, self._actor_step(features, noise[1])

    def _actor_step(self, features: Tensor, noise: Tensor) -> Tensor:
        """One step of the actor and of the temperature; returns the entropy."""
        learner, size = self.learner, len(features)
        actions, log_probs = learner.sample(features, noise)
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


class DeviceTD3(Accelerator):
    """The gradient steps of TD3 and REDQ, for networks without an image encoder on a GPU."""

    replaces = ("gradient_step", "critic_loss", "actor_loss")

    @classmethod
    def supports(cls, learner: Any) -> bool:
        return learner.device.type == "cuda" and not learner.has_images

    def gradient_step(
        self, batch: ReplayBatch, weights: Tensor | None, number: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        learner, size = self.learner, len(batch.rewards)
        td_target, features = learner.td_target(batch), learner.policy.encoder(batch.leaves)
        values = learner.critics(features, batch.actions)
        td_error = values.detach() - td_target
        grads = td_error / size if weights is None else td_error * (weights / size)
        learner.critic_adam.descend([values], [grads], learner.options.max_grad_norm)
        return values.detach(), td_error, self._actor_step(features) if learner.trains_actor(number) else None

    def _actor_step(self, features: Tensor) -> Tensor:
        """One step of the actor; returns its loss before it."""
        learner = self.learner
        values = learner.frozen_critics(features, learner.policy(features), learner.actor_critics)
        grads = torch.full_like(values, -1.0 / values.numel())
        learner.actor_adam.descend([values], [grads], learner.options.max_grad_norm)
        return -values.detach().mean()
