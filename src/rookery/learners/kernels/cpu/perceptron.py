"""Perceptrons on a CPU, with everything but the large products in compiled passes; and activations and their slopes, as
compilers turn them into vector instructions.

At a few hundred rows, what torch spends on calling small operations is more than what they compute. Here a layer is one
product by torch, into memory that is kept, and one compiled pass for all the rest. For two nets of 64x64 and 256 rows
a gradient takes 0.25 ms instead of 0.8. Acting for a few envs is a single call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from rookery.learners.cached_njit import cached_njit
from rookery.learners.networks import EnsembleMLP
from rookery.part_compiler import part

# Products and sums may be contracted. A division that might raise would keep the compiler from vectors (6x).
contracted = part(fastmath={"contract"}, error_model="numpy")
TANH, RELU = 0, 1
KINDS = {"tanh": TANH, "relu": RELU}
NORMALISED = 2  # added to a kind: layer normalisation before the activation
# tanh(x) = x P(x^2) / Q(x^2) to within 4e-7, from which compilers make vector instructions, unlike math.tanh.
P0, P1, P2, P3, P4, P5, P6 = (
    np.float32(x)
    for x in (
        4.89352455891786e-03, 6.37261928875436e-04, 1.48572235717979e-05, 5.12229709037114e-08, -8.60467152213735e-11,
        2.00018790482477e-13, -2.76076847742355e-16,
    )
)  # fmt: skip
Q0, Q1, Q2, Q3 = (
    np.float32(x) for x in (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04, 1.19825839466702e-06)
)
FLAT = np.float32(7.9)  # beyond this tanh is 1


@contracted
def fast_tanh(x: np.float32) -> np.float32:
    """tanh to within 4e-7."""
    x = min(max(x, -FLAT), FLAT)
    z = x * x
    above = ((((((P6 * z + P5) * z + P4) * z + P3) * z + P2) * z + P1) * z + P0) * x
    return above / (((Q3 * z + Q2) * z + Q1) * z + Q0)


@contracted
def activate_numbers(values: np.ndarray, kind: int) -> None:
    """Apply the activation to all numbers, in place."""
    if kind == TANH:
        for k in range(len(values)):
            values[k] = fast_tanh(values[k])
    else:
        for k in range(len(values)):
            values[k] = max(values[k], np.float32(0.0))


@contracted
def standardise(values: np.ndarray, kept: np.ndarray, factors: np.ndarray, width: int) -> None:
    """Layer normalisation: shift and scale rows to mean 0 and variance 1 over their first numbers, in place. `kept` and
    `factors` take what `through_standardise` needs."""
    for r in range(len(values)):
        row, copy, total = values[r], kept[r], np.float32(0.0)
        for k in range(width):
            total += row[k]
        mean, squares = total / np.float32(width), np.float32(0.0)
        for k in range(width):
            row[k] -= mean
            squares += row[k] * row[k]
        factor = np.float32(1.0) / np.sqrt(squares / np.float32(width) + np.float32(1e-5))
        factors[r] = factor
        for k in range(width):
            row[k] *= factor
            copy[k] = row[k]


@contracted
def through_standardise(grads: np.ndarray, kept: np.ndarray, factors: np.ndarray, width: int) -> None:
    """Turn gradients at the results of `standardise` into those at its arguments, in place."""
    for r in range(len(grads)):
        row, values, total, along = grads[r], kept[r], np.float32(0.0), np.float32(0.0)
        for k in range(width):
            total += row[k]
            along += row[k] * values[k]
        total, along = total / np.float32(width), along / np.float32(width)
        for k in range(width):
            row[k] = (row[k] - total - values[k] * along) * factors[r]


@contracted
def multiply_by_slopes(grads: np.ndarray, values: np.ndarray, kind: int) -> None:
    """Turn gradients at the outputs of an activation, `values`, into those at its inputs, in place."""
    if kind == TANH:
        for k in range(len(grads)):
            grads[k] *= np.float32(1.0) - values[k] * values[k]
    else:
        for k in range(len(grads)):
            grad = grads[k]  # read in any case: so the choice is an instruction, and not a jump that goes either way
            grads[k] = grad if values[k] > np.float32(0.0) else np.float32(0.0)


# --- passes of a few hundred rows -------------------------------------------------------------------------------------

fast = cached_njit(nogil=True, fastmath=True, error_model="numpy")
fast_part = part(fastmath=True, error_model="numpy")
NARROW = 16


@fast
def activate(values: np.ndarray, bias: np.ndarray, kind: int) -> None:
    """Add a bias to every row and apply the activation, in place."""
    rows, size = values.shape
    zero = np.float32(0.0)
    for r in range(rows):
        row = values[r]
        if kind == TANH:
            for k in range(size):
                row[k] = fast_tanh(row[k] + bias[k])
        else:
            for k in range(size):
                row[k] = max(row[k] + bias[k], zero)


@fast
def activation_backward(grads: np.ndarray, values: np.ndarray, bias_grads: np.ndarray, kind: int) -> None:
    """Turn gradients at the outputs of `activate` into those at its inputs, in place, and sum them for the bias."""
    rows, size = grads.shape
    zero, one = np.float32(0.0), np.float32(1.0)
    bias_grads[:] = zero
    for r in range(rows):
        row, came = grads[r], values[r]
        if kind == TANH:
            for k in range(size):
                row[k] *= one - came[k] * came[k]
        else:
            for k in range(size):
                row[k] = row[k] if came[k] > zero else zero
        for k in range(size):
            bias_grads[k] += row[k]


@fast_part
def _layer(inputs: np.ndarray, weights: np.ndarray, bias: np.ndarray, out: np.ndarray) -> None:
    """out = inputs @ weights + bias for a few rows; eight inputs at a time, to touch `out` an eighth as often."""
    rows, size = inputs.shape
    width = weights.shape[1]
    for r in range(rows):
        row = out[r]
        for k in range(width):  # by hand: for `row[:] = bias`, Numba compiles three seconds of error messages
            row[k] = bias[k]
        for i in range(0, size - size % 8, 8):
            a, b, c, d = inputs[r, i], inputs[r, i + 1], inputs[r, i + 2], inputs[r, i + 3]
            e, f, g, h = inputs[r, i + 4], inputs[r, i + 5], inputs[r, i + 6], inputs[r, i + 7]
            wa, wb, wc, wd = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
            we, wf, wg, wh = weights[i + 4], weights[i + 5], weights[i + 6], weights[i + 7]
            for k in range(width):
                half = a * wa[k] + b * wb[k] + c * wc[k] + d * wd[k]
                row[k] += half + e * we[k] + f * wf[k] + g * wg[k] + h * wh[k]
        for i in range(size - size % 8, size):
            a, wa = inputs[r, i], weights[i]
            for k in range(width):
                row[k] += a * wa[k]


@fast_part
def _widest(sizes: np.ndarray) -> int:
    """By hand: Numba's `max` needs SciPy, also when the compiled code is read from disk."""
    widest = 0
    for size in sizes:
        widest = max(widest, size)
    return widest


@fast
def forward(inputs: np.ndarray, sizes: np.ndarray, packed: np.ndarray, kind: int, out: np.ndarray) -> None:
    """The outputs of a perceptron whose weights [inputs, outputs] and biases lie one after the other."""
    nothing = np.zeros(_widest(sizes), np.float32)
    start, last = 0, len(sizes) - 2
    for k in range(last + 1):
        size, width = sizes[k], sizes[k + 1]
        weights = packed[start : start + size * width].reshape(size, width)
        bias = packed[start + size * width : start + (size + 1) * width]
        start += (size + 1) * width
        values = out if k == last else np.empty((len(inputs), width), np.float32)
        _layer(inputs, weights, bias, values)
        if k < last:
            activate(values, nothing, kind)
        inputs = values


class PackedMLP:
    """A copy of a perceptron's weights, laid out for the compiled pass: for few rows at a time, until the weights
    change."""

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor]], kind: int) -> None:
        arrays = [(weight.detach().numpy(), bias.detach().numpy()) for weight, bias in layers]
        self.sizes = np.array([arrays[0][0].shape[1], *(len(bias) for _, bias in arrays)])
        self.packed = np.concatenate([part for weight, bias in arrays for part in (weight.T.ravel(), bias)])
        self.kind = kind

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Outputs for features [rows, inputs] of float32."""
        out = np.empty((len(features), self.sizes[-1]), np.float32)
        forward(features, self.sizes, self.packed, self.kind, out)
        return out


class FusedMLP:
    """The gradient of a perceptron, written out. `forward` gives outputs and keeps what `backward` needs to fill the
    parameters' gradients. Buffers are kept for each number of rows."""

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor]], kind: int) -> None:
        self._layers = list(layers)
        self._kind = kind
        self._biases = [bias.detach().numpy() for _, bias in layers]
        self._memory: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        self._came: list[Tensor] = []

    def forward(self, features: Tensor) -> Tensor:
        """Outputs [rows, outputs], valid until the next call."""
        values, _ = self._memory_for(len(features))
        self._came, last = [features], len(self._layers) - 1
        for k, (weight, bias) in enumerate(self._layers):
            if k == last:
                return torch.addmm(bias, features, weight.t(), out=values[k])
            features = torch.mm(features, weight.t(), out=values[k])
            activate(features.numpy(), self._biases[k], self._kind)
            self._came.append(features)
        raise AssertionError("a perceptron has layers")

    def backward(self, grad: Tensor) -> None:
        """Fill the gradients of all weights and biases."""
        _, grads = self._memory_for(len(grad))
        weight, bias = self._layers[-1]
        torch.mm(grad.t(), self._came[-1], out=weight.grad)
        torch.sum(grad, 0, out=bias.grad)
        for k in range(len(self._layers) - 2, -1, -1):
            grad = torch.mm(grad, self._layers[k + 1][0], out=grads[k])
            weight, bias = self._layers[k]
            activation_backward(grad.numpy(), self._came[k + 1].numpy(), bias.grad.numpy(), self._kind)  # type: ignore[union-attr]
            if weight.shape[1] < NARROW:  # the other way round is three times as quick for a few columns
                weight.grad.copy_(torch.mm(self._came[k].t(), grad).t())  # type: ignore[union-attr]
            else:
                torch.mm(grad.t(), self._came[k], out=weight.grad)

    def input_grads(self, grad: Tensor) -> Tensor:
        """The gradient at the features, for this gradient at the outputs; the parameters' gradients are left alone."""
        _, grads = self._memory_for(len(grad))
        for k in range(len(self._layers) - 2, -1, -1):
            grad = torch.mm(grad, self._layers[k + 1][0], out=grads[k])
            unused = np.empty(grad.shape[1], np.float32)
            activation_backward(grad.numpy(), self._came[k + 1].numpy(), unused, self._kind)
        return torch.mm(grad, self._layers[0][0])

    def _memory_for(self, rows: int) -> tuple[list[Tensor], list[Tensor]]:
        if rows not in self._memory:
            sizes = [len(bias) for _, bias in self._layers]
            self._memory[rows] = tuple([torch.empty(rows, size) for size in sizes] for _ in range(2))  # type: ignore[assignment]
        return self._memory[rows]


def members_of(ensemble: EnsembleMLP) -> list[list[tuple[Tensor, Tensor]]]:
    """The layers of each member of an ensemble, on the ensemble's own memory."""
    return [
        [
            (_member(weight, lambda part: part[k].t()), _member(bias, lambda part: part[k, 0]))  # noqa: B023
            for weight, bias in zip(ensemble.weights, ensemble.biases, strict=True)
        ]
        for k in range(len(ensemble.weights[0]))
    ]


def _member(parameter: Tensor, part_of: Callable[[Tensor], Tensor]) -> Tensor:
    """A view of one member's part of a parameter, whose gradient is a view as well."""
    view = part_of(parameter.data)
    if parameter.grad is not None:
        view.grad = part_of(parameter.grad)
    return view
