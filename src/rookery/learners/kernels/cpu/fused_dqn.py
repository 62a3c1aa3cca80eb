"""DQN's accelerator: the gradient of its network written out.

At DQN's sizes (64 rows, some thousand weights) torch's autograd costs several times the arithmetic. Written out,
forward, backward and Adam are some twenty-five plain operations, and an update takes half the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from rookery.learners.accelerator import Accelerator
from rookery.learners.networks import QNet
from rookery.learners.replay_buffer import ReplayBatch

aten = torch.ops.aten
# The gradient at an activation's input, from the gradient at its output, its input and its output.
ACTIVATION_GRADS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "tanh": lambda grad, before, after: aten.tanh_backward(grad, after),
    "relu": lambda grad, before, after: aten.threshold_backward(grad, after, 0.0),
    "elu": lambda grad, before, after: aten.elu_backward(grad, 1.0, 1.0, 1.0, True, after),
    "gelu": lambda grad, before, after: aten.gelu_backward(grad, before),
    "silu": lambda grad, before, after: aten.silu_backward(grad, before),
}
Pass = tuple[Tensor, Tensor, Tensor]  # of one layer: its input, its output, and that activated


class FusedDQN(Accelerator):
    """For every DQN: an image encoder before the network is still differentiated by autograd."""

    replaces = ("gradient_step", "td_target", "loss")

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self.net = FusedQNet(learner.policy.net)

    @torch.no_grad()
    def gradient_step(self, batch: ReplayBatch, weights: Tensor | None, number: int) -> tuple[Tensor, Tensor, Tensor]:
        learner, options, size = self.learner, self.learner.options, len(batch.rewards)
        with torch.set_grad_enabled(learner.has_images):
            features = learner.policy.encoder(batch.leaves)
        next_features = learner.policy.encoder(batch.next_leaves)
        # One pass for both observations; only the first half is differentiated.
        inputs = torch.cat([features, next_features]) if options.double else features
        values, passes = self.net.forward(inputs, size)
        td_target = learner.td_target(batch, next_features, values[size:] if options.double else None)
        actions = batch.actions.unsqueeze(1)
        td_error = values[:size].gather(1, actions).squeeze(1) - td_target
        grad = td_error.clamp(-1.0, 1.0).div_(size) if options.loss == "huber" else td_error / size
        if weights is not None:
            grad.mul_(weights)
        self._backward(features, passes, torch.zeros_like(values[:size]).scatter_(1, actions, grad.unsqueeze(1)))
        return td_target, td_error, learner.adam.step(options.max_grad_norm)

    def _backward(self, features: Tensor, passes: list[Pass], grads: Tensor) -> None:
        if not self.learner.has_images:
            self.net.backward(passes, grads, to_features=False)
            return
        self.learner.adam.gradient.zero_()
        feature_grads = self.net.backward(passes, grads, to_features=True)
        features.backward(feature_grads)


class FusedQNet:
    """`QNet` with its gradient written out. For use under `torch.no_grad`."""

    def __init__(self, net: QNet) -> None:
        self.net, self._activation_grad = net, ACTIVATION_GRADS[net.activation_name]

    def forward(self, features: Tensor, rows: int) -> tuple[Tensor, list[Pass]]:
        """The network's values, and what `backward` needs of the first rows."""
        passes = []
        for weight, bias in self.net.hidden_params:
            before = linear(features, weight, bias)
            after = self.net.activation(before)
            passes.append((features[:rows], before[:rows], after[:rows]))
            features = after
        return self.net.heads(features), passes

    def backward(self, passes: list[Pass], grad: Tensor, to_features: bool) -> Tensor | None:
        """Fill the parameters' gradients, for a loss with this gradient [rows, actions] at the values; returns its
        gradient at the features if `to_features`."""
        grad = self._backward_heads(passes[-1][2], grad)
        for k in range(len(passes) - 1, -1, -1):
            inputs, before, after = passes[k]
            weight, bias = self.net.hidden_params[k]
            grad = self._activation_grad(grad, before, after)
            linear_grads(weight, bias, inputs, grad)
            if k or to_features:
                grad = grad @ weight
        return grad if to_features else None

    def _backward_heads(self, inputs: Tensor, grad: Tensor) -> Tensor:
        net = self.net
        if net.value_params is None:
            linear_grads(*net.advantage_params, inputs, grad)
            return grad @ net.advantage_params[0]
        value_grad, advantage_grad = grad.sum(1, keepdim=True), grad @ net.centering
        linear_grads(*net.value_params, inputs[:, : net.half], value_grad)
        linear_grads(*net.advantage_params, inputs[:, net.half :], advantage_grad)
        return torch.cat([value_grad * net.value_params[0], advantage_grad @ net.advantage_params[0]], 1)


def linear_grads(weight: Tensor, bias: Tensor, inputs: Tensor, grad: Tensor) -> None:
    """Fill the gradients of a linear layer."""
    torch.mm(grad.t(), inputs, out=weight.grad)
    torch.sum(grad, 0, out=bias.grad)
