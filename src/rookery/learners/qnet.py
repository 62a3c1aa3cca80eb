"""The net of DQN, with its gradient written out.

At DQN's sizes (64 rows, some thousand weights) torch's autograd and optimiser cost several times the arithmetic.
Written out, forward, backward and Adam are some twenty-five plain operations, and an update takes half the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from rookery.learners.networks import ACTIVATION_GRADS, ACTIVATIONS, Pass, fill, orthogonal


class QNet(nn.Module):
    """Features to the worth of each action, with at least one hidden layer.

    A dueling net parts in its last hidden layer: one half says what the situation is worth, the other how each action
    differs from the average one.
    """

    less_mean: Tensor

    def __init__(self, inputs: int, hidden: Sequence[int], actions: int, activation: str, dueling: bool) -> None:
        super().__init__()
        *widths, last = hidden
        self.half = -(-last // 2) if dueling else 0
        widths = [inputs, *widths, 2 * self.half or last]
        self.hidden = nn.ModuleList([orthogonal(nn.Linear(a, b)) for a, b in pairwise(widths)])
        self.advantage = orthogonal(nn.Linear(self.half or last, actions), 1.0)
        self.value = orthogonal(nn.Linear(self.half, 1), 1.0) if self.half else None
        self.activation, self.grad = ACTIVATIONS[activation], ACTIVATION_GRADS[activation]
        # A product with this takes the mean of a row from it, in one operation.
        self.register_buffer("less_mean", torch.eye(actions) - 1.0 / actions, persistent=False)
        # Kept at hand, since looking them up in modules each time costs as much as using them.
        self._hidden = [(layer.weight, layer.bias) for layer in self.hidden]
        self._advantage = self.advantage.weight, self.advantage.bias
        self._value = (self.value.weight, self.value.bias) if self.value is not None else None

    def forward(self, features: Tensor) -> Tensor:
        """The worth of all actions, [batch, actions]."""
        for weight, bias in self._hidden:
            features = self.activation(linear(features, weight, bias))
        return self._heads(features)

    def _heads(self, features: Tensor) -> Tensor:
        if self._value is None:
            return linear(features, *self._advantage)
        value = linear(features[:, : self.half], *self._value)
        return torch.addmm(value, linear(features[:, self.half :], *self._advantage), self.less_mean)

    def forward_with_passes(self, features: Tensor, rows: int) -> tuple[Tensor, list[Pass]]:
        """As `forward`, and what `backward` needs to know of the first rows. For use under `torch.no_grad`."""
        passes = []
        for weight, bias in self._hidden:
            before = linear(features, weight, bias)
            after = self.activation(before)
            passes.append((features[:rows], before[:rows], after[:rows]))
            features = after
        return self._heads(features), passes

    def backward(self, passes: list[Pass], grad: Tensor, features: bool) -> Tensor | None:
        """Fill the parameters' gradients, for a loss with this grad [rows, actions] at these outputs; returns its
        grad at the features if asked for. For use under `torch.no_grad`."""
        grad = self._backward_heads(passes[-1][2], grad)
        for k in range(len(passes) - 1, -1, -1):
            inputs, before, after = passes[k]
            weight, bias = self._hidden[k]
            grad = self.grad(grad, before, after)
            fill(weight, bias, inputs, grad)
            if k or features:
                grad = grad @ weight
        return grad if features else None

    def _backward_heads(self, inputs: Tensor, grad: Tensor) -> Tensor:
        if self._value is None:
            fill(*self._advantage, inputs, grad)
            return grad @ self._advantage[0]
        sums, differences = grad.sum(1, keepdim=True), grad @ self.less_mean
        fill(*self._value, inputs[:, : self.half], sums)
        fill(*self._advantage, inputs[:, self.half :], differences)
        return torch.cat([sums * self._value[0], differences @ self._advantage[0]], 1)
