"""Gradient steps of all members on a CPU, equal to the bit to those that each learner makes alone."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rookery.learners.fast.fused_ppo import FusedPPO
from rookery.learners.heads import FORBIDDEN, GaussianHead, MultiCategoricalHead
from rookery.learners.population.compiled_passes import adam_all, categorical_all, gaussian_all, values_all
from rookery.learners.population.member_settings import MemberSettings
from rookery.learners.population.parameter_stack import ParameterStack
from rookery.learners.population.products import ExactProducts
from rookery.learners.population.stacked_perceptron import StackedPerceptron

METRIC_COUNT = 5


class CompiledStep:
    """Written-out gradients and Adam on a `ParameterStack`."""

    def __init__(self, stack: ParameterStack) -> None:
        learner, products = stack.learners[0], ExactProducts()
        self.stack, self.head, self.eps = stack, learner.head, learner.adam.eps
        self._actor = StackedPerceptron(stack, learner.policy.actor, products)
        self._critic = StackedPerceptron(stack, learner.policy.critic, products)
        self._arrays = [x.numpy() for x in (stack.flat, stack.gradient, *stack.moments)]
        self._terms = np.zeros((len(stack), METRIC_COUNT))

    @classmethod
    def supports(cls, stack: ParameterStack) -> bool:
        """Whether every member alone would be updated by the same compiled code."""
        return all(isinstance(learner.accelerator, FusedPPO) for learner in stack.learners)

    def begin(self, settings: MemberSettings) -> None:
        """An update begins."""
        self._settings, self._steps = settings, self.stack.steps.double().numpy()

    def shuffle(self, samples: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
        """The samples [members, rows, ...] of an epoch, in the order that `order` [members, rows] gives."""
        members, rows = order.shape
        places = (order + torch.arange(members).unsqueeze(1) * rows).flatten()
        return {name: value.flatten(0, 1).index_select(0, places).view(value.shape) for name, value in samples.items()}

    @torch.no_grad()
    def step(self, shuffled: dict[str, Tensor], low: int, high: int, active: np.ndarray) -> Tensor:
        """One gradient step on rows [low, high) of every member; returns metrics [members, 5]. Members that are not
        active keep their weights."""
        s, terms = self._settings, self._terms
        features = shuffled["features"][:, low:high]
        self._critic_grads(features, shuffled, low, high)
        self._actor_grads(features, shuffled, low, high)
        adam_all(*self._arrays, self._steps, s.learning_rate, self.eps, s.max_grad_norm, active, terms[:, 4])
        return torch.from_numpy(terms.astype(np.float32))

    def end(self) -> None:
        """The update is done."""
        self.stack.set_steps(torch.from_numpy(self._steps).float())

    def _critic_grads(self, features: Tensor, shuffled: dict[str, Tensor], low: int, high: int) -> None:
        s, values = self._settings, self._critic.forward(features)
        grads = torch.empty_like(values)
        before, returns = shuffled["values"].numpy(), shuffled["returns"].numpy()
        losses = self._terms[:, 2]
        values_all(values.numpy(), before, returns, low, high, s.clip_values, s.value_weight, grads.numpy(), losses)
        self._critic.backward(grads)

    def _actor_grads(self, features: Tensor, shuffled: dict[str, Tensor], low: int, high: int) -> None:
        s, outputs = self._settings, self._actor.forward(features)
        if "masks" in shuffled:
            allowed = shuffled["masks"][:, low:high].reshape(outputs.shape)
            outputs = outputs.masked_fill(~allowed, FORBIDDEN)
        grads, found = torch.empty_like(outputs), np.empty((len(outputs), 3))
        names = ("actions", "log_probs", "advantages")
        rows = *(shuffled[name].numpy() for name in names), low, high, s.normalise, s.clip, s.entropy
        if isinstance(self.head, GaussianHead):
            start = self.stack.start(self.head.log_std)
            gaussian_all(outputs.numpy(), *self._arrays[:2], start, *rows, grads.numpy(), found)
        else:
            head = self.head
            sizes = np.array(head.sizes if isinstance(head, MultiCategoricalHead) else [head.outputs])
            categorical_all(outputs.numpy(), sizes, *rows, grads.numpy(), found)
        self._terms[:, [0, 1, 3]] = found
        self._actor.backward(grads)
