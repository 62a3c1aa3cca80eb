"""Where the layers of perceptrons lie in memory, for compiled code: in the vector of all parameters, in copies laid out
for products, and in the gradients of a slice of rows. And what is computed there
on one thread without an allocation: forward and backward of a perceptron for a block of rows, and steps of Adam."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from rookery.learners.cached_njit import cached_njit, double_array, float_array, inner
from rookery.learners.kernels.cpu.perceptron import (
    NORMALISED,
    activate_numbers,
    multiply_by_slopes,
    standardise,
    through_standardise,
)
from rookery.learners.kernels.cpu.product_tiles import (
    LANES,
    PANEL,
    UNROLL,
    add_outer,
    copy_panel,
    copy_strided_panel,
    multiply,
    padded,
    panel_place,
)
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
CHAINS = 4  # sums of squares that a task computes side by side
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
        layer_norm: Whether hidden layers are normalised: then there is room for what the way back needs of it.
    """

    def __init__(
        self,
        nets: Sequence[Layers],
        flat: Tensor,
        block: int,
        extra: Tensor | None = None,
        backward: bool = True,
        layer_norm: bool = False,
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
                place += block * padded(weight.shape[0], LANES) * (2 if layer_norm else 1) + block * layer_norm
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


@inner
def share(count: int, task: int, tasks: int) -> tuple[int, int]:
    """The part of `count` things that is one of `tasks` tasks."""
    return count * task // tasks, count * (task + 1) // tasks


@inner
def wide(size: int) -> int:
    """A size, rounded up to whole vectors."""
    return (size + LANES - 1) // LANES * LANES


@inner
def even(size: int) -> int:
    """A size, rounded up to a multiple of UNROLL."""
    return (size + UNROLL - 1) // UNROLL * UNROLL


@inner
def pack_layers(table: np.ndarray, flat: int, packed: int, task: int, tasks: int) -> None:
    """Copy weights to where products read them: a task's share of the inputs of every layer, and for the way back of
    its outputs. So each task writes whole rows of panels, and no two write to one cache line."""
    for layer in table:
        if layer[PACKED] == NONE:
            continue
        outputs, inputs, down, across = layer[OUTPUTS], layer[INPUTS], layer[ROW_STRIDE], layer[COLUMN_STRIDE]
        weights = flat + 4 * layer[WEIGHT]
        low, high = share(inputs, task, tasks)
        _pack_rows(weights, across, down, low, high, even(inputs), outputs, packed + 4 * layer[PACKED])
        if layer[BACKWARD] != NONE:
            low, high = share(outputs, task, tasks)
            _pack_rows(weights, down, across, low, high, even(outputs), inputs, packed + 4 * layer[BACKWARD])
        if task == 0:
            _pack_rows(flat + 4 * layer[BIAS], 0, 1, 0, 1, 1, outputs, packed + 4 * layer[PACKED_BIAS])


@inner
def _pack_rows(matrix: int, down: int, across: int, low: int, high: int, inner: int, columns: int, packed: int) -> None:
    """Copy rows [low, high) of a matrix [inner, columns] into panels."""
    for first in range(0, columns, PANEL):
        panel, came = packed + 4 * panel_place(0, first, inner, wide(columns)), matrix + 4 * first * across
        if columns - first < PANEL:
            width = wide(columns) - first
            for row in range(low, high):
                copy = float_array(panel + 4 * row * width, width)
                for n in range(columns - first):
                    copy[n] = float_array(came + 4 * (row * down + n * across), 1)[0]
        elif across == 1:
            for row in range(low, high):
                copy_panel(came + 4 * row * down, 1, panel + 4 * row * PANEL)
        else:
            for row in range(low, high):
                copy_strided_panel(came + 4 * row * down, across, panel + 4 * row * PANEL)


@inner
def sum_gradients(
    table: np.ndarray, partial: int, size: int, slices: int, gradient: int, squares: np.ndarray, task: int
) -> None:
    """Add the gradients of all slices at `partial`, each of this size, in their order, into the vector of all
    gradients. Each number of `squares` takes the squares of a share of the rows of every layer. A task has CHAINS
    shares: an addition waits for the one before it in its sum, and several sums side by side take no longer than one.
    """
    sums = squares[CHAINS * task : CHAINS * (task + 1)]
    sums[:] = 0.0
    for layer in table:
        together = layer[OUTPUTS] // len(squares)  # rows that every share has
        starts = _starts(layer[OUTPUTS], CHAINS * task, len(squares))
        for n in range(starts[0], starts[CHAINS]):
            _sum_row(layer, partial, size, slices, gradient, n)
        for k in range(together):
            _square_rows(layer, partial, starts, k, sums)
        for chain in range(CHAINS):
            for n in range(starts[chain] + together, starts[chain + 1]):
                sums[chain] = _squared(layer, partial, n, sums[chain])


@inner
def _starts(count: int, first: int, shares: int) -> tuple[int, int, int, int, int]:
    """Where CHAINS shares of `count` things begin, and where the last one ends."""
    a, b = share(count, first, shares)
    c, d = share(count, first + 2, shares)
    return a, b, c, d, share(count, first + 3, shares)[1]


@inner
def _row_at(layer: np.ndarray, grads: int, n: int) -> int:
    """The address of the gradients of an output's weights."""
    return grads + 4 * (layer[GRAD] + n * wide(layer[INPUTS]))


@inner
def _bias_at(layer: np.ndarray, grads: int, n: int) -> np.ndarray:
    return float_array(grads + 4 * (layer[BIAS_GRAD] + n), 1)


@inner
def _sum_row(layer: np.ndarray, partial: int, size: int, slices: int, gradient: int, n: int) -> None:
    """The gradients of one output: the sum is in the first slice as well."""
    inputs, bias = layer[INPUTS], _bias_at(layer, partial, n)
    row = float_array(_row_at(layer, partial, n), inputs)
    for s in range(1, slices):
        grads = partial + 4 * s * size
        other = float_array(_row_at(layer, grads, n), inputs)
        for k in range(inputs):
            row[k] += other[k]
        bias[0] += _bias_at(layer, grads, n)[0]
    place, stride = gradient + 4 * (layer[WEIGHT] + n * layer[ROW_STRIDE]), layer[COLUMN_STRIDE]
    if stride == 1:
        out = float_array(place, inputs)
        for k in range(inputs):
            out[k] = row[k]
    else:
        for k in range(inputs):
            float_array(place + 4 * k * stride, 1)[0] = row[k]
    float_array(gradient + 4 * (layer[BIAS] + n), 1)[0] = bias[0]


@inner
def _squared(layer: np.ndarray, grads: int, n: int, total: float) -> float:
    """`total` and the squares of one output's gradients."""
    for grad in float_array(_row_at(layer, grads, n), layer[INPUTS]):
        total += grad * grad
    bias = _bias_at(layer, grads, n)[0]
    return total + bias * bias


@inner
def _square_rows(layer: np.ndarray, grads: int, starts: tuple[int, ...], k: int, sums: np.ndarray) -> None:
    """The same for an output of each share, side by side."""
    inputs = layer[INPUTS]
    a = float_array(_row_at(layer, grads, starts[0] + k), inputs)
    b = float_array(_row_at(layer, grads, starts[1] + k), inputs)
    c = float_array(_row_at(layer, grads, starts[2] + k), inputs)
    d = float_array(_row_at(layer, grads, starts[3] + k), inputs)
    sum_a, sum_b, sum_c, sum_d = sums[0], sums[1], sums[2], sums[3]
    for i in range(inputs):
        sum_a += a[i] * a[i]
        sum_b += b[i] * b[i]
        sum_c += c[i] * c[i]
        sum_d += d[i] * d[i]
    sums[0], sums[1], sums[2], sums[3] = sum_a, sum_b, sum_c, sum_d
    for chain in range(CHAINS):
        bias = _bias_at(layer, grads, starts[chain] + k)[0]
        sums[chain] += bias * bias


@inner
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
            if kind & NORMALISED:
                block, (kept, factors) = float_array(out, (rows, columns)), _kept_of(out, rows, columns)
                standardise(block, kept, factors, layer[OUTPUTS])
            activate_numbers(float_array(out, rows * columns), kind & ~NORMALISED)
        inputs = out
    return inputs


@inner
def _kept_of(out: int, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """After a normalised layer's activations: its numbers before them, and the factors of rows."""
    count = rows * columns
    return float_array(out + 4 * count, (rows, columns)), float_array(out + 8 * count, rows)


@inner
def backward_block(
    product: int, outer: int, layers: np.ndarray, packed: int, zeros: int, inputs: int, work: int, grads: int,
    spare: int, rows: int, kind: int, partial: int, first: bool,
) -> None:  # fmt: skip
    """Add the gradients of all parameters to those at `partial`, for gradients at the outputs [rows, ...]; the `first`
    ones replace what is there. Both `grads` and `spare` have room for the widest layer and are overwritten."""
    for k in range(len(layers) - 1, -1, -1):
        layer = layers[k]
        columns, outputs = wide(layer[INPUTS]), wide(layer[OUTPUTS])
        came = inputs if k == 0 else work + 4 * layers[k - 1][ACTIVATION]
        out, start = partial + 4 * layer[GRAD], zeros if first else 0
        add_outer(outer, grads, outputs, came, columns, rows, out, columns, layer[OUTPUTS], columns, start)
        _add_rows(grads, rows, layer[OUTPUTS], outputs, partial + 4 * layer[BIAS_GRAD], first)
        if k > 0:
            weights, inner, count = packed + 4 * layer[BACKWARD], even(layer[OUTPUTS]), rows * columns
            multiply(product, grads, outputs, weights, inner, zeros, 0, spare, columns, rows, columns)
            multiply_by_slopes(float_array(spare, count), float_array(came, count), kind & ~NORMALISED)
            if kind & NORMALISED:
                kept, factors = _kept_of(came, rows, columns)
                through_standardise(float_array(spare, (rows, columns)), kept, factors, layer[INPUTS])
            grads, spare = spare, grads


@inner
def _add_rows(numbers: int, rows: int, columns: int, stride: int, out: int, first: bool) -> None:
    """Add all rows to one, or to zeros."""
    values, total = float_array(numbers, (rows, stride)), float_array(out, columns)
    if first:
        total[:] = np.float32(0.0)
    for r in range(rows):
        row = values[r]
        for k in range(columns):
            total[k] += row[k]


# --- steps of Adam ----------------------------------------------------------------------------------------------------


@inner
def adam_rates(length: float, steps: float, rate: float, limit: float) -> Rates:
    """What a step with a gradient of this length needs, if it is clipped to `limit`."""
    cut, stride = min(1.0, limit / (length + 1e-6)), rate / (1 - BETAS[0] ** steps)
    return cut, stride, 1 / math.sqrt(1 - BETAS[1] ** steps)


@inner
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


@inner
def adam_share(vectors: Any, size: int, rates: Rates, eps: float, task: int, tasks: int) -> None:
    """The same on a task's share of all weights, from the addresses of weights, gradient and both moments."""
    low, high = share(size, task, tasks)
    weights, gradient, first, second = vectors
    count = high - low
    adam_range(
        float_array(weights + 4 * low, count), float_array(gradient + 4 * low, count),
        float_array(first + 4 * low, count), float_array(second + 4 * low, count), rates, eps,
    )  # fmt: skip


@inner
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
