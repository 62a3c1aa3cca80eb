"""A perceptron of every member on a CPU, with written-out gradients, for all members at once."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.learners.fast.perceptron import KINDS, NARROW
from rookery.learners.networks import MLP
from rookery.learners.population.compiled_passes import activate_all, activation_backward_all
from rookery.learners.population.parameter_stack import ParameterStack
from rookery.learners.population.products import ExactProducts


class StackedPerceptron:
    """`forward` gives outputs and keeps what `backward` needs to fill the gradients of all members."""

    def __init__(self, stack: ParameterStack, net: MLP, products: ExactProducts) -> None:
        """`net` is the first member's."""
        self._products, self._kind = products, KINDS[net.activation_name]
        self._flat, self._gradient = stack.flat.numpy(), stack.gradient.numpy()
        self._weights = [stack.view(stack.flat, weight) for weight, _ in net.layer_params]
        self._biases = [stack.view(stack.flat, bias) for _, bias in net.layer_params]
        self._weight_grads = [stack.view(stack.gradient, weight) for weight, _ in net.layer_params]
        self._bias_grads = [stack.view(stack.gradient, bias) for _, bias in net.layer_params]
        self._starts = [stack.start(bias) for _, bias in net.layer_params]
        self._memory: dict[int, list[list[Tensor]]] = {}
        self._came: list[Tensor] = []

    def forward(self, features: Tensor) -> Tensor:
        """Outputs [members, rows, outputs], valid until the next call."""
        values = self._memory_for(features.shape[1])[0]
        self._came, last = [features], len(self._weights) - 1
        for k, weight in enumerate(self._weights[:last]):
            features = self._products.bmm(features, weight.transpose(1, 2), values[k])
            activate_all(features.numpy(), self._flat, self._starts[k], self._kind)
            self._came.append(features)
        return self._products.baddbmm(self._biases[last], features, self._weights[last].transpose(1, 2), values[last])

    def backward(self, grad: Tensor) -> None:
        """Fill the gradients of all weights and biases."""
        _, grads, narrow = self._memory_for(grad.shape[1])
        products = self._products
        products.bmm(grad.transpose(1, 2), self._came[-1], self._weight_grads[-1])
        products.sum_rows(grad, self._bias_grads[-1])
        for k in range(len(self._weights) - 2, -1, -1):
            grad = products.bmm(grad, self._weights[k + 1], grads[k])
            came = self._came[k + 1].numpy()
            activation_backward_all(grad.numpy(), came, self._gradient, self._starts[k], self._kind)
            if self._weights[k].shape[2] < NARROW:
                sideways = products.bmm(self._came[k].transpose(1, 2), grad, narrow[k])
                self._weight_grads[k].copy_(sideways.transpose(1, 2))
            else:
                products.bmm(grad.transpose(1, 2), self._came[k], self._weight_grads[k])

    def _memory_for(self, rows: int) -> list[list[Tensor]]:
        """Outputs and gradients of each layer for this number of rows, and gradients of narrow layers."""
        if rows not in self._memory:
            members, widths = len(self._flat), [weight.shape[1] for weight in self._weights]
            outputs, grads = ([torch.empty(members, rows, width) for width in widths] for _ in range(2))
            narrow = [torch.empty(members, weight.shape[2], weight.shape[1]) for weight in self._weights]
            self._memory[rows] = [outputs, grads, narrow]
        return self._memory[rows]
