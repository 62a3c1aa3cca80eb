"""Forward and backward of a perceptron for a block of rows, on one thread, without an allocation."""

from __future__ import annotations

import numpy as np

from rookery.learners.cached_njit import cached_njit
from rookery.learners.kernels.cpu.activations import activate_numbers, multiply_by_slopes
from rookery.learners.kernels.cpu.layer_table import (
    ACTIVATION,
    BACKWARD,
    BIAS_GRAD,
    GRAD,
    INPUTS,
    OUTPUTS,
    PACKED,
    PACKED_BIAS,
    even,
    wide,
)
from rookery.learners.kernels.cpu.memory_views import float_array
from rookery.learners.kernels.cpu.product_tiles import add_outer, multiply

compiled = cached_njit(nogil=True, error_model="numpy")


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
    spare: int, rows: int, kind: int, partial: int, to_inputs: bool,
) -> int:  # fmt: skip
    """Add the gradients of all parameters to those at `partial`, for gradients at the outputs [rows, ...]. Both `grads`
    and `spare` have room for the widest layer and are overwritten. Returns the address of the gradients at the
    inputs, if asked for; then those of parameters are left alone if `partial` is 0."""
    for k in range(len(layers) - 1, -1, -1):
        layer = layers[k]
        columns, outputs = wide(layer[INPUTS]), wide(layer[OUTPUTS])
        came = inputs if k == 0 else work + 4 * layers[k - 1][ACTIVATION]
        if partial:
            out = partial + 4 * layer[GRAD]
            add_outer(outer, grads, outputs, came, columns, rows, out, columns, layer[OUTPUTS], columns)
            _add_rows(grads, rows, layer[OUTPUTS], outputs, partial + 4 * layer[BIAS_GRAD])
        if k > 0 or to_inputs:
            weights, inner = packed + 4 * layer[BACKWARD], even(layer[OUTPUTS])
            multiply(product, grads, outputs, weights, inner, zeros, 0, spare, columns, rows, columns)
            if k > 0:
                count = rows * columns
                multiply_by_slopes(float_array(spare, count), float_array(came, count), kind)
            grads, spare = spare, grads
    return grads


@compiled
def _add_rows(numbers: int, rows: int, columns: int, stride: int, out: int) -> None:
    """Add all rows to one."""
    values, total = float_array(numbers, (rows, stride)), float_array(out, columns)
    for r in range(rows):
        row = values[r]
        for k in range(columns):
            total[k] += row[k]
