"""The networks on top of encoders: perceptrons, ensembles of critics, and the network of DQN."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import linear

from rookery.learners.cpu_threads import one_thread

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "elu": functional.elu,
    "gelu": functional.gelu,
    "silu": functional.silu,
}
Params = Sequence[tuple[Tensor, Tensor]]  # weights and biases, layer by layer
HUGE_LAYER = 1 << 25  # weights
Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)
Module = TypeVar("Module", bound=nn.Module)


def orthogonal(layer: Layer, gain: float = math.sqrt(2)) -> Layer:
    """Orthogonal weights and zero biases, the same ones however many threads torch has."""
    if layer.weight.numel() < HUGE_LAYER:
        with one_thread():
            nn.init.orthogonal_(layer.weight, gain)
    else:  # takes minutes; so many random numbers in a row are nearly orthogonal to those of another
        nn.init.normal_(layer.weight, 0.0, gain / math.sqrt(layer.weight[0].numel()))
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def forward_hidden(features: Tensor, layers: Params, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """Features through hidden layers. It calls the operations itself: for batches of 64 rows, `nn.Sequential` spends
    half its time on calling modules."""
    for weight, bias in layers:
        features = activation(linear(features, weight, bias))
    return features


def normalised(activation: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """An activation after layer normalisation, which has no parameters."""
    return activation(functional.layer_norm(values, values.shape[-1:]))


class MLP(nn.Module):
    """A perceptron; `gain` scales the initial weights of its last layer. With `layer_norm`, the units of each hidden
    layer are shifted and scaled to mean 0 and variance 1 before the activation, row by row."""

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        activation: str,
        gain: float = 1.0,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        widths = [inputs, *hidden, outputs]
        gains = [math.sqrt(2)] * len(hidden) + [gain]
        layers = [orthogonal(nn.Linear(a, b), gain) for a, b, gain in zip(widths[:-1], widths[1:], gains, strict=True)]
        self.layers = nn.ModuleList(layers)
        self.activation_name, self.layer_norm = activation, layer_norm
        self.activation = partial(normalised, ACTIVATIONS[activation]) if layer_norm else ACTIVATIONS[activation]
        self.layer_params = [(layer.weight, layer.bias) for layer in layers]

    def forward(self, features: Tensor) -> Tensor:
        """[batch, outputs]"""
        *hidden, last = self.layer_params
        return linear(forward_hidden(features, hidden, self.activation), *last)


def networks_of(policy: Any) -> list[Any]:
    """Actor and critic, or the one network that gives values of actions."""
    return [policy.actor, policy.critic] if hasattr(policy, "critic") else [policy.net]


class EnsembleMLP(nn.Module):
    """Several perceptrons with one output each as a single network: weights [count, inputs, outputs], so that a layer
    of all of them is one batched product."""

    def __init__(self, count: int, inputs: int, hidden: Sequence[int], activation: str) -> None:
        super().__init__()
        members = [MLP(inputs, hidden, 1, activation).layers for _ in range(count)]
        weights = [torch.stack([layer.weight.detach().T for layer in layers]) for layers in zip(*members, strict=True)]
        self.weights = nn.ParameterList(weights)
        self.biases = nn.ParameterList([torch.zeros(count, 1, weight.shape[2]) for weight in weights])
        self.activation = ACTIVATIONS[activation]
        self._layers = list(zip(self.weights, self.biases, strict=True))

    def forward(self, features: Tensor, members: slice | Tensor | None = None) -> Tensor:
        """The output of each member, or of some, for features [batch, inputs], as [members, batch]."""
        layers = (
            self._layers if members is None else [(weight[members], bias[members]) for weight, bias in self._layers]
        )
        *hidden, (weight, bias) = layers
        values = features.expand(len(weight), *features.shape)
        for inner_weight, inner_bias in hidden:
            values = self.activation(torch.baddbmm(inner_bias, values, inner_weight))
        return torch.baddbmm(bias, values, weight).squeeze(-1)


class Critics(nn.Module):
    """An ensemble of critics over the actor's encoder, which only the critics' loss trains."""

    ensemble: Any

    def __init__(self, encoder: Any, ensemble: nn.Module) -> None:
        super().__init__()
        self.encoder, self.ensemble = encoder, ensemble

    def forward(self, features: Tensor, actions: Tensor, *how: Any) -> Tensor:
        """What the ensemble says of actions; `how` is passed on to it."""
        return self.ensemble(torch.cat([features, actions], -1), *how)


def with_params_from(module: Module, flat: Tensor) -> Module:
    """A copy of a module whose parameters are views of one vector, without gradients: the vector that an optimizer
    trains, for a copy that always has the newest weights, or a clone of it, for a target network. Running statistics
    are shared."""
    other, start = copy.deepcopy(module, {id(buffer): buffer for buffer in module.buffers()}), 0
    for p in other.parameters():
        p.requires_grad_(False)
        p.data = flat[start : start + p.numel()].view(p.shape)
        start += p.numel()
    return other


class QNet(nn.Module):
    """Features to the value of each action, with at least one hidden layer.

    A dueling network divides its last hidden layer: from one half comes the value of the state, from the other how each
    action differs from the average one.
    """

    centering: Tensor
    half: int  # type: ignore[assignment]  # not torch's method

    def __init__(self, inputs: int, hidden: Sequence[int], actions: int, activation: str, dueling: bool) -> None:
        super().__init__()
        *widths, last = hidden
        self.half = -(-last // 2) if dueling else 0
        widths = [inputs, *widths, 2 * self.half or last]
        layers = [orthogonal(nn.Linear(a, b)) for a, b in pairwise(widths)]
        self.hidden = nn.ModuleList(layers)
        self.advantage = orthogonal(nn.Linear(self.half or last, actions), 1.0)
        self.value = orthogonal(nn.Linear(self.half, 1), 1.0) if self.half else None
        self.activation_name, self.activation = activation, ACTIVATIONS[activation]
        # A product with this subtracts the mean of a row, in one operation. By NumPy, as in `ActionBounds`.
        centering = np.eye(actions, dtype=np.float32) - np.float32(1.0 / actions)
        self.register_buffer("centering", torch.as_tensor(centering), persistent=False)
        # Kept here, since looking them up in modules each time costs as much as using them.
        self.hidden_params = [(layer.weight, layer.bias) for layer in layers]
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
        weight: Tensor
        bias: Tensor
        weight, bias = self.advantage_params
        if self.value_params is not None:
            value_weight, value_bias = self.value_params
            weight = torch.cat([value_weight.expand(len(bias), -1), self.centering @ weight], 1)
            bias = value_bias + self.centering @ bias
        return [*self.hidden_params, (weight, bias)]
