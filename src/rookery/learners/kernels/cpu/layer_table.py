"""Where the layers of perceptrons lie in memory, for compiled code: in the vector of all parameters, in copies laid out
for products, and in the gradients of a slice of rows. And what is computed there
on one thread without an allocation: forward and backward of a perceptron for a block of rows, and steps of Adam."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from rookery.learners.cached_njit import cached_njit, compiled, double_array, float_array
from rookery.learners.kernels.cpu.perceptron import activate_numbers, multiply_by_slopes
from rookery.learners.kernels.cpu.product_tiles import LANES, PANEL, UNROLL, add_outer, multiply, padded, panel_place
from rookery.learners.schedules import BETAS

# Of a layer: its sizes; the place of its weights in the vector of all parameters and what one row and one column are
# apart there; the place of its bias there; the places of the copies for forward, bias and backward; of its gradients
# in a slice's; and of its outputs in a thread's memory.
TABLE_WIDTH = 12
OUTPUTS, INPUTS, WEIGHT, ROW_STRIDE, COLUMN_STRIDE, BIAS, PACKED, PACKED_BIAS, BACKWARD, GRAD, BIAS_GRAD, ACTIVATION = (
    range(TABLE_WIDTH)
)
NONE = -1
LINE = 16  # float32 numbers of a cache line
Layers = Sequence[tuple[Tensor, Tensor]]
Rates = tuple[float, float, float]  # factors of the gradient, of a step, and of the root of the second moment


class LayerTable:
    """The layers of some nets, one after the other, whose parameters are parts of one vector.

    Args:
        nets: The layers of each net, as (weight [outputs, inputs], bias).
        flat: The vector of all parameters.
        block: How many rows a thread computes at a time.
        extra: Further parameters with gradients of their own, such as the standard deviations of a Gaussian.
        backward: Whether there are copies of weights for the way back.
    """

    def __init__(
        self, nets: Sequence[Layers], flat: Tensor, block: int, extra: Tensor | None = None, backward: bool = True
    ) -> None:
        self._backward = backward
        self.block, self.packed_size, self.gradient_size, self.work_size = block, 0, 0, 0
        self.widest = max(padded(size, LANES) for layers in nets for weight, _ in layers for size in weight.shape)
        self.zeros = self._packed(self.widest)  # a row of zeros, added where there is no bias
        self.starts: list[int] = []
        rows: list[list[int]] = []
        origin = flat.data_ptr()
        for layers in nets:
            self.starts.append(len(rows))
            place = 0  # nets are computed one after the other: their outputs share memory
            for k, (weight, bias) in enumerate(layers):
                rows.append(self._row(weight, bias, origin, k, place))
                place += block * padded(weight.shape[0], LANES)
            self.work_size = max(self.work_size, place)
        self.starts.append(len(rows))
        if extra is not None:
            rows.append(self._extra(extra, origin))
        self.table = np.array(rows, np.int64)

    def _row(self, weight: Tensor, bias: Tensor, origin: int, k: int, place: int) -> list[int]:
        outputs, inputs = weight.shape
        wide_outputs, wide_inputs = padded(outputs, LANES), padded(inputs, LANES)
        return [
            outputs, inputs, (weight.data_ptr() - origin) // 4, *weight.stride(), (bias.data_ptr() - origin) // 4,
            self._packed(padded(inputs, UNROLL) * wide_outputs), self._packed(wide_outputs),
            self._packed(padded(outputs, UNROLL) * wide_inputs) if self._backward else NONE,
            self._gradient(outputs * wide_inputs),
            self._gradient(wide_outputs), place,
        ]  # fmt: skip

    def _extra(self, extra: Tensor, origin: int) -> list[int]:
        place = (extra.data_ptr() - origin) // 4
        grads = self._gradient(padded(extra.numel(), LANES))
        return [extra.numel(), 0, 0, 0, 0, place, NONE, NONE, NONE, NONE, grads, NONE]

    def _packed(self, size: int) -> int:
        self.packed_size += padded(size, LINE)
        return self.packed_size - padded(size, LINE)

    def _gradient(self, size: int) -> int:
        self.gradient_size += size
        return self.gradient_size - size


@compiled
def share(count: int, task: int, tasks: int) -> tuple[int, int]:
    """The part of `count` things that is one of `tasks` tasks."""
    return count * task // tasks, count * (task + 1) // tasks


@compiled
def wide(size: int) -> int:
    """A size, rounded up to whole vectors."""
    return (size + LANES - 1) // LANES * LANES


@compiled
def even(size: int) -> int:
    """A size, rounded up to a multiple of UNROLL."""
    return (size + UNROLL - 1) // UNROLL * UNROLL


@compiled
def pack_layers(table: np.ndarray, flat: np.ndarray, packed: np.ndarray, task: int, tasks: int) -> None:
    """Copy weights to where products read them: a task's share of the inputs of every layer, and for the way back of
    its outputs. So each task writes whole rows of panels, and no two write to one cache line."""
    for layer in table:
        if layer[PACKED] == NONE:
            continue
        outputs, inputs, down, across = layer[OUTPUTS], layer[INPUTS], layer[ROW_STRIDE], layer[COLUMN_STRIDE]
        weights = flat[layer[WEIGHT] :]
        low, high = share(inputs, task, tasks)
        for first in range(0, outputs, PANEL):  # a panel at a time: few cache lines are read, many numbers of each
            for k in range(low, high):
                place = layer[PACKED] + panel_place(k, first, even(inputs), wide(outputs))
                for n in range(min(PANEL, outputs - first)):
                    packed[place + n] = weights[(first + n) * down + k * across]
        low, high = share(outputs, task, tasks) if layer[BACKWARD] != NONE else (0, 0)
        for first in range(0, inputs, PANEL):
            for n in range(low, high):
                place = layer[BACKWARD] + panel_place(n, first, even(outputs), wide(inputs))
                for k in range(min(PANEL, inputs - first)):
                    packed[place + k] = weights[n * down + (first + k) * across]
        if task == 0:
            for n in range(outputs):
                packed[layer[PACKED_BIAS] + n] = flat[layer[BIAS] + n]


@compiled
def sum_gradients(
    table: np.ndarray, partial: np.ndarray, slices: int, gradient: np.ndarray, task: int, tasks: int
) -> float:
    """Add the gradients of all slices [slices, ...] in their order, into the vector of all gradients: a task's share of
    the rows of every layer. Returns the sum of the squares."""
    squares = 0.0
    for layer in table:
        outputs, inputs = layer[OUTPUTS], layer[INPUTS]
        low, high = share(outputs, task, tasks)
        for n in range(low, high):
            start = layer[GRAD] + n * wide(inputs)
            row = partial[0, start : start + inputs]
            for s in range(1, slices):
                other = partial[s, start : start + inputs]
                for k in range(inputs):
                    row[k] += other[k]
            place, stride = layer[WEIGHT] + n * layer[ROW_STRIDE], layer[COLUMN_STRIDE]
            for k in range(inputs):
                gradient[place + k * stride] = row[k]
                squares += row[k] * row[k]
            total = partial[0, layer[BIAS_GRAD] + n]
            for s in range(1, slices):
                total += partial[s, layer[BIAS_GRAD] + n]
            gradient[layer[BIAS] + n] = total
            squares += total * total
    return squares


@compiled
def forward_block(product: int, layers: np.ndarray, packed: int, inputs: int, work: int, rows: int, kind: int) -> int:
    """The outputs of rows of inputs, whose number is a multiple of ROWS; returns their address in `work`, where each
    row takes whole vectors. What `backward_block` needs stays there. `product` is the address of `multiply`."""
    last = len(layers) - 1
    for k in range(last + 1):
        layer = layers[k]
        columns, out = wide(layer[OUTPUTS]), work + 4 * layer[ACTIVATION]
        weights, bias = packed + 4 * layer[PACKED], packed + 4 * layer[PACKED_BIAS]
        inner = even(layer[INPUTS])
        multiply(product, inputs, wide(layer[INPUTS]), weights, inner, bias, 0, out, columns, rows, columns)
        if k < last:
            activate_numbers(float_array(out, rows * columns), kind)
        inputs = out
    return inputs


@compiled
def backward_block(
    product: int, outer: int, layers: np.ndarray, packed: int, zeros: int, inputs: int, work: int, grads: int,
    spare: int, rows: int, kind: int, partial: int,
) -> None:  # fmt: skip
    """Add the gradients of all parameters to those at `partial`, for gradients at the outputs [rows, ...]. Both `grads`
    and `spare` have room for the widest layer and are overwritten."""
    for k in range(len(layers) - 1, -1, -1):
        layer = layers[k]
        columns, outputs = wide(layer[INPUTS]), wide(layer[OUTPUTS])
        came = inputs if k == 0 else work + 4 * layers[k - 1][ACTIVATION]
        out = partial + 4 * layer[GRAD]
        add_outer(outer, grads, outputs, came, columns, rows, out, columns, layer[OUTPUTS], columns)
        _add_rows(grads, rows, layer[OUTPUTS], outputs, partial + 4 * layer[BIAS_GRAD])
        if k > 0:
            weights, inner, count = packed + 4 * layer[BACKWARD], even(layer[OUTPUTS]), rows * columns
            multiply(product, grads, outputs, weights, inner, zeros, 0, spare, columns, rows, columns)
            multiply_by_slopes(float_array(spare, count), float_array(came, count), kind)
            grads, spare = spare, grads


@compiled
def _add_rows(numbers: int, rows: int, columns: int, stride: int, out: int) -> None:
    """Add all rows to one."""
    values, total = float_array(numbers, (rows, stride)), float_array(out, columns)
    for r in range(rows):
        row = values[r]
        for k in range(columns):
            total[k] += row[k]


# --- steps of Adam ----------------------------------------------------------------------------------------------------


@compiled
def adam_rates(length: float, steps: float, rate: float, limit: float) -> Rates:
    """What a step with a gradient of this length needs, if it is clipped to `limit`."""
    cut, stride = min(1.0, limit / (length + 1e-6)), rate / (1 - BETAS[0] ** steps)
    return cut, stride, 1 / math.sqrt(1 - BETAS[1] ** steps)


@compiled
def adam_range(
    weights: np.ndarray, gradient: np.ndarray, first: np.ndarray, second: np.ndarray, rates: Rates, eps: float
) -> None:
    """A step of Adam on some weights, in one pass: each operation alone takes microseconds."""
    cut, stride, spread = np.float32(rates[0]), np.float32(rates[1]), np.float32(rates[2])
    keep1, keep2 = np.float32(BETAS[0]), np.float32(BETAS[1])
    new1, new2 = np.float32(1 - BETAS[0]), np.float32(1 - BETAS[1])
    least = np.float32(eps)
    for k in range(len(weights)):
        grad = gradient[k] * cut
        first[k] = keep1 * first[k] + new1 * grad
        second[k] = keep2 * second[k] + new2 * grad * grad
        weights[k] -= stride * first[k] / (np.sqrt(second[k]) * spread + least)


@compiled
def adam_share(vectors: Any, size: int, rates: Rates, eps: float, task: int, tasks: int) -> None:
    """The same on a task's share of all weights, from the addresses of weights, gradient and both moments."""
    low, high = share(size, task, tasks)
    weights, gradient, first, second = vectors
    count = high - low
    adam_range(
        float_array(weights + 4 * low, count), float_array(gradient + 4 * low, count),
        float_array(first + 4 * low, count), float_array(second + 4 * low, count), rates, eps,
    )  # fmt: skip


@compiled
def length_of_parts(squares: int, parts: int) -> float:
    """The length of a gradient, from the address of the sums of squares of its parts."""
    total = 0.0
    for part in double_array(squares, parts):
        total += part
    return math.sqrt(total)


@cached_njit(nogil=True, fastmath={"reassoc"}, error_model="numpy")
def adam_step(
    weights: np.ndarray,
    gradient: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    steps: float,
    rate: float,
    eps: float,
    limit: float,
) -> float:
    """Clip the gradient to `limit` and make a step of Adam; returns the gradient's length."""
    squares = 0.0
    for grad in gradient:
        squares += grad * grad
    length = math.sqrt(squares)
    adam_range(weights, gradient, first, second, adam_rates(length, steps, rate, limit), eps)
    return length
