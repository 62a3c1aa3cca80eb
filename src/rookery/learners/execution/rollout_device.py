"""How rollouts are learned from on a GPU, with networks that no fused kernels serve: images, dicts, recurrent and
custom ones.

The algorithm's own code runs, as one CUDA graph for a whole update. What is faster here are the products (see
`precision`), the way of an image through its convolutions (see `image_path`), and that PPO's values are
stored while acting.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.learners.accelerator import Accelerator
from rookery.learners.captured_call import CapturedUpdate
from rookery.learners.encoders import Encoder
from rookery.learners.kernels.gpu.image_path import image_features
from rookery.learners.kernels.gpu.precision import Products
from rookery.learners.kernels.gpu.triton_support import has_kernels


class CapturedRollout(Accelerator):
    """Serves PQN on every CUDA device."""

    replaces = ("encode", "advantages")

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        encoder, options = learner.policy.encoder, learner.options
        self._images = type(encoder) is Encoder and encoder.is_trained
        self.products = Products(options.precision, options.deterministic, learner.device, self._images)
        self._clip: Any = 0.0
        self._metrics = torch.zeros(len(learner.metric_names), device=learner.device)
        self._has_kernels = has_kernels(learner.device)
        self._update = CapturedUpdate(learner, self._learn)

    @classmethod
    def supports(cls, learner: Any) -> bool:
        return learner.device.type == "cuda"

    # --- methods of the algorithm -----------------------------------------------------------------------------------

    def encode(self, leaves: list[Tensor]) -> Tensor:
        encoder, dtype = self.learner.policy.encoder, self.products.encoder_dtype
        if self._images:
            return encoder.joined(leaves, lambda net, image: image_features(net, image, dtype))
        if dtype != torch.float32 and encoder.is_trained:
            with torch.autocast(self.learner.device.type, dtype, cache_enabled=False):
                return encoder(leaves).float()
        return encoder(leaves)

    def advantages(
        self, rewards: Tensor, values: Tensor, next_values: Tensor, terminated: Tensor, ended: Tensor
    ) -> Tensor:
        outcome, options = (rewards, values, next_values, terminated, ended), self.learner.options
        if not self._has_kernels:
            return type(self.learner).advantages(self.learner, *outcome)
        from rookery.learners.kernels.gpu.rollout_kernels import advantages_on_device

        return advantages_on_device(*outcome, options.gamma, options.trace_lambda)

    # --- collecting and updating ------------------------------------------------------------------------------------

    def explore(self, observations: Any, rows: slice, mask: Any) -> Any:
        execution = self.learner.execution
        rollout = execution.rollout
        if rollout.final_values is None and rollout.recorded == 0:
            rollout.final_values = rollout.new_array()
        if self.stores_values and rollout.values is None and rollout.recorded == 0:
            rollout.values = rollout.new_array()
        with self.products:
            return execution.explore_plainly(observations, rows, mask)

    def record(self, rows: slice, step: Any) -> bool:
        with self.products:
            self.learner.execution.store_tensors(rows, step)
        return True

    def update(self, clip: Any) -> Tensor:
        self._clip = clip
        with self.products:
            self._evaluate_finals()
        self._update()
        return self._metrics

    @torch.no_grad()
    def _evaluate_finals(self) -> None:
        """The values of last observations that came one by one, from envs without tensors: there are another number of
        them in each rollout, so that they cannot be a part of a graph."""
        learner, rollout = self.learner, self.learner.execution.rollout
        for t, envs, leaves in rollout.finals:
            memory = rollout.features[t, envs] if rollout.features is not None else None
            rollout.final_values[t, envs] = learner.values(learner.features(leaves, memory))
        rollout.finals = []

    def _learn(self) -> None:
        with self.products.watched():
            self._metrics.copy_(self.learner.execution.learn_plainly(self._clip))


class CapturedPPO(CapturedRollout):
    """Serves PPO on every CUDA device."""

    stores_values = True
