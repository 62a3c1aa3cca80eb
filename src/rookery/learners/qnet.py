"""The network of DQN."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from rookery.learners.networks import ACTIVATIONS, forward_hidden, orthogonal


class QNet(nn.Module):
    """Features to the value of each action, with at least one hidden layer.

    A dueling network divides its last hidden layer: from one half comes the value of the state, from the other how each
    action differs from the average one.
    """

    centering: Tensor

    def __init__(self, inputs: int, hidden: Sequence[int], actions: int, activation: str, dueling: bool) -> None:
        super().__init__()
        *widths, last = hidden
        self.half = -(-last // 2) if dueling else 0
        widths = [inputs, *widths, 2 * self.half or last]
        self.hidden = nn.ModuleList([orthogonal(nn.Linear(a, b)) for a, b in pairwise(widths)])
        self.advantage = orthogonal(nn.Linear(self.half or last, actions), 1.0)
        self.value = orthogonal(nn.Linear(self.half, 1), 1.0) if self.half else None
        self.activation_name, self.activation = activation, ACTIVATIONS[activation]
        # A product with this subtracts the mean of a row, in one operation. By NumPy, as in `ActionBounds`.
        centering = np.eye(actions, dtype=np.float32) - np.float32(1.0 / actions)
        self.register_buffer("centering", torch.as_tensor(centering), persistent=False)
        # Kept here, since looking them up in modules each time costs as much as using them.
        self.hidden_params = [(layer.weight, layer.bias) for layer in self.hidden]
        self.advantage_params = self.advantage.weight, self.advantage.bias
        self.value_params = (self.value.weight, self.value.bias) if self.value is not None else None

    def forward(self, features: Tensor) -> Tensor:
        """The values of all actions, [batch, actions]."""
        return self.heads(forward_hidden(features, self.hidden_params, self.activation))

    def heads(self, features: Tensor) -> Tensor:
        """The values, from the last hidden layer."""
        if self.value_params is None:
            return linear(features, *self.advantage_params)
        value = linear(features[:, : self.half], *self.value_params)
        return torch.addmm(value, linear(features[:, self.half :], *self.advantage_params), self.centering)

    @torch.no_grad()
    def as_perceptron(self) -> list[tuple[Tensor, Tensor]]:
        """The layers of a plain perceptron with the same outputs: both heads are linear, and become one last layer."""
        weight, bias = self.advantage_params
        if self.value_params is not None:
            value_weight, value_bias = self.value_params
            weight = torch.cat([value_weight.expand(len(bias), -1), self.centering @ weight], 1)
            bias = value_bias + self.centering @ bias
        return [*self.hidden_params, (weight, bias)]
