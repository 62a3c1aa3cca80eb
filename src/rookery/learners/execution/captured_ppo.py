"""PPO on a GPU for every network that no fused kernels serve: images, dicts, recurrent and custom ones.

The learner's own code runs, as one CUDA graph for a whole update. What is faster here are the products (see
`precision`), the way of an image through its convolutions (see `image_path`), and that values are stored while acting.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.learners.encoders import Encoder, ImageNet
from rookery.learners.execution.accelerator import Accelerator
from rookery.learners.execution.captured_call import CapturedCall
from rookery.learners.kernels.gpu.image_path import image_features
from rookery.learners.kernels.gpu.precision import Products
from rookery.learners.kernels.gpu.triton_support import has_kernels


class CapturedPPO(Accelerator):
    """Serves PPO on every CUDA device."""

    stores_values = True
    learner: Any  # a PPO: importing it would be a circle

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        encoder, options = learner.policy.encoder, learner.options
        self._images = type(encoder) is Encoder and any(isinstance(net, ImageNet) for net in encoder.images.values())
        self.products = Products(options.precision, options.deterministic, learner.device, self._images)
        self._metrics = torch.zeros(5, device=learner.device)
        self._made_for: list[Any] = []
        self._has_kernels = has_kernels(learner.device)
        self._update = CapturedCall(
            self._learn,
            learner.device,
            state=lambda: learner.device_state(),
            generators=[learner.generator],
            name="updates",
        )

    @classmethod
    def supports(cls, learner: Any) -> bool:
        return learner.device.type == "cuda"

    # --- networks -----------------------------------------------------------------------------------------------

    def encode(self, leaves: list[Tensor]) -> Tensor | None:
        encoder, dtype = self.learner.policy.encoder, self.products.encoder_dtype
        if self._images:
            return encoder.joined(leaves, lambda net, image: image_features(net, image, dtype))
        if dtype != torch.float32 and encoder.is_trained:
            with torch.autocast(self.learner.device.type, dtype, cache_enabled=False):
                return encoder(leaves).float()
        return None

    # --- collecting ---------------------------------------------------------------------------------------------

    def explore(self, observations: Any, rows: slice, mask: Any) -> Any:
        rollout = self.learner.rollout
        if rollout.values is None and rollout.recorded == 0:
            rollout.values, rollout.final_values = rollout.new_array(), rollout.new_array()
        with self.products:
            return self.learner._explore(observations, rows, mask)

    def record(self, rows: slice, step: Any) -> bool:
        with self.products:
            self.learner._store_tensors(rows, step)
        return True

    # --- targets ------------------------------------------------------------------------------------------------

    def advantages(
        self, rewards: Tensor, values: Tensor, next_values: Tensor, terminated: Tensor, ended: Tensor
    ) -> Tensor | None:
        if not self._has_kernels:
            return None
        from rookery.learners.kernels.gpu.rollout_kernels import advantages_on_device

        options = self.learner.options
        return advantages_on_device(rewards, values, next_values, terminated, ended, options.gamma, options.gae_lambda)

    # --- updating -----------------------------------------------------------------------------------------------

    def update(self, clip: Any) -> Tensor:
        self._release_if_changed()
        with self.products:
            self._evaluate_finals()
        self._update()
        return self._metrics

    @torch.no_grad()
    def _evaluate_finals(self) -> None:
        """The values of last observations that came one by one, from envs without tensors: there are another number of
        them in each rollout, so that they cannot be a part of a graph."""
        rollout = self.learner.rollout
        for t, envs, leaves in rollout.finals:
            memory = rollout.features[t, envs] if rollout.features is not None else None
            rollout.final_values[t, envs] = self.learner._value(leaves, memory)
        rollout.finals = []

    def _learn(self) -> None:
        with self.products.watched():
            self._metrics.copy_(self.learner._learn())

    def _release_if_changed(self) -> None:
        """A graph has options in it, and addresses: another one is needed if they have changed."""
        learner = self.learner
        tensors = {name: tensor for name, tensor in learner.rollout._tensors().items() if name != "noise"}
        now = [learner.options, learner.rollout, *tensors.values()]
        if len(now) != len(self._made_for) or any(a is not b for a, b in zip(now, self._made_for, strict=True)):
            self._update.release()
            self._made_for = now
