"""Passes through perceptrons in tasks for a team of threads: compiled code.

A task computes a block of a batch through all layers, or some rows of a weight's gradient over the whole batch. Each
number is summed by itself in the order of the batch. So none depends on how the work is divided, nor on the number of
threads. A task is a row of numbers, mostly addresses; `PassTeam` runs them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from rookery.learners.cached_njit import cached_cfunc, double_array, float_array, inner, int_array
from rookery.learners.kernels.cpu.layer_table import (
    TABLE_WIDTH,
    adam_rates,
    adam_share,
    even,
    length_of_parts,
    pack_layers,
    share,
    wide,
)
from rookery.learners.kernels.cpu.perceptron import activate_numbers, multiply_by_slopes
from rookery.learners.kernels.cpu.product_tiles import add_outer, multiply, product_addresses
from rookery.once import once

FORWARD, BACKWARD, WEIGHT_GRADS, PACK, SQUARES, ADAM = range(6)  # commands

# Of a layer in a pass: addresses and widths of its inputs and outputs, and what two rows of them are apart; the copies
# of its weights and bias; where the gradients at its outputs and at its inputs lie (0: nobody wants these).
LAYER_SIZE = 11
(
    INPUTS, INPUT_STRIDE, INPUT_WIDTH, OUTPUTS, OUTPUT_STRIDE, OUTPUT_WIDTH, WEIGHTS, BIAS, BACK, OUTPUT_GRADS,
    INPUT_GRADS,
) = range(LAYER_SIZE)  # fmt: skip

JOB_SIZE = 11
# FORWARD and BACKWARD: the layers of a pass, its activation, a row of zeros, and a block of the batch.
LAYERS, LAYER_COUNT, KIND, ZEROS, FIRST_ROW, ROW_COUNT = range(6)
# WEIGHT_GRADS: rows of left.T @ right, summed over the batch, and where they go.
LEFT, LEFT_STRIDE, RIGHT, RIGHT_STRIDE, BATCH, COUNT, COLUMNS, TARGET, DOWN, ACROSS, SCRATCH_SIZE = range(JOB_SIZE)
# PACK: a share of the layers of a `LayerTable`.
TABLE, TABLE_ROWS, FLAT, PACKED, SHARE = range(5)
# SQUARES and ADAM: a share of the parameters in one vector.
PARAMETERS, GRADIENT, FIRST_MOMENTS, SECOND_MOMENTS, SIZE, NUMBERS, SQUARE_SUMS, PART = range(8)

SHARES = 16  # that weights and parameters are divided into
RATE, EPS, LIMIT, STEPS = range(4)  # of NUMBERS
NUMBER_COUNT = 4

ROWS_AT_ONCE = 128  # of the batch in a weight's gradient: as many as the first cache holds of both matrices

# The arguments of a task, as a plan: the addresses of the jobs, of both products, and of the threads' scratch memory.
PLAN_SIZE = 4
JOBS, PRODUCT, OUTER, SCRATCH = range(PLAN_SIZE)


@inner
def _job(plan: np.ndarray, task: int) -> np.ndarray:
    return int_array(plan[JOBS] + 8 * task * JOB_SIZE, JOB_SIZE)


@inner
def _layers(job: np.ndarray) -> np.ndarray:
    return int_array(job[LAYERS], (job[LAYER_COUNT], LAYER_SIZE))


@inner
def _rows(layer: np.ndarray, address: int, stride: int, job: np.ndarray) -> int:
    """The address of a block's first row in a matrix of the layer."""
    return layer[address] + 4 * job[FIRST_ROW] * layer[stride]


def _forward(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """The outputs of all layers for a block of the batch."""
    plan = int_array(plan_address, PLAN_SIZE)
    job = _job(plan, task)
    layers, rows = _layers(job), job[ROW_COUNT]
    for k in range(len(layers)):
        layer = layers[k]
        inputs, out = (
            _rows(layer, INPUTS, INPUT_STRIDE, job),
            _rows(layer, OUTPUTS, OUTPUT_STRIDE, job),
        )
        stride, columns = layer[OUTPUT_STRIDE], wide(layer[OUTPUT_WIDTH])
        multiply(
            plan[PRODUCT], inputs, layer[INPUT_STRIDE], layer[WEIGHTS], even(layer[INPUT_WIDTH]),
            layer[BIAS], 0, out, stride, rows, columns,
        )  # fmt: skip
        if k < len(layers) - 1:
            activate_numbers(float_array(out, rows * stride), job[KIND])
    return 0


def _backward(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """The gradients at the outputs of all layers for a block of the batch, and at the inputs if they are wanted."""
    plan = int_array(plan_address, PLAN_SIZE)
    job = _job(plan, task)
    layers, rows = _layers(job), job[ROW_COUNT]
    for k in range(len(layers) - 1, -1, -1):
        layer = layers[k]
        if layer[INPUT_GRADS] == 0:
            continue
        grads, out = (
            _rows(layer, OUTPUT_GRADS, OUTPUT_STRIDE, job),
            _rows(layer, INPUT_GRADS, INPUT_STRIDE, job),
        )
        stride, columns = layer[INPUT_STRIDE], wide(layer[INPUT_WIDTH])
        multiply(
            plan[PRODUCT], grads, layer[OUTPUT_STRIDE], layer[BACK], even(layer[OUTPUT_WIDTH]),
            job[ZEROS], 0, out, stride, rows, columns,
        )  # fmt: skip
        if k > 0:
            came = _rows(layer, INPUTS, INPUT_STRIDE, job)
            multiply_by_slopes(float_array(out, rows * stride), float_array(came, rows * stride), job[KIND])
    return 0


def _weight_grads(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """Some rows of a weight's gradient: computed in memory of this thread, and copied to where they belong."""
    plan = int_array(plan_address, PLAN_SIZE)
    job = _job(plan, task)
    rows, columns = job[COUNT], wide(job[COLUMNS])
    scratch = plan[SCRATCH] + 4 * slot * job[SCRATCH_SIZE]
    found = float_array(scratch, (rows, columns))
    found[:] = np.float32(0.0)
    left_stride, right_stride = job[LEFT_STRIDE], job[RIGHT_STRIDE]
    for begin in range(0, job[BATCH], ROWS_AT_ONCE):
        left, right = job[LEFT] + 4 * begin * left_stride, job[RIGHT] + 4 * begin * right_stride
        inner = min(ROWS_AT_ONCE, job[BATCH] - begin)
        add_outer(plan[OUTER], left, left_stride, right, right_stride, inner, scratch, columns, rows, columns, 0)
    down, across = job[DOWN], job[ACROSS]
    target = float_array(job[TARGET], (rows - 1) * down + (job[COLUMNS] - 1) * across + 1)
    for i in range(rows):
        for k in range(job[COLUMNS]):
            target[i * down + k * across] = found[i, k]
    return 0


def _pack(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """Copies of weights for products."""
    job = _job(int_array(plan_address, PLAN_SIZE), task)
    table = int_array(job[TABLE], (job[TABLE_ROWS], TABLE_WIDTH))
    pack_layers(table, job[FLAT], job[PACKED], job[SHARE], SHARES)
    return 0


def _squares(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """The sum of the squares of a part of a gradient."""
    job = _job(int_array(plan_address, PLAN_SIZE), task)
    low, high = share(job[SIZE], job[PART], SHARES)
    total = 0.0
    for grad in float_array(job[GRADIENT] + 4 * low, high - low):
        total += grad * grad
    double_array(job[SQUARE_SUMS], SHARES)[job[PART]] = total
    return 0


def _adam(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """A step of Adam on a part of the parameters."""
    job = _job(int_array(plan_address, PLAN_SIZE), task)
    numbers, length = double_array(job[NUMBERS], NUMBER_COUNT), length_of_parts(job[SQUARE_SUMS], SHARES)
    rates = adam_rates(length, numbers[STEPS], numbers[RATE], numbers[LIMIT])
    vectors = job[PARAMETERS], job[GRADIENT], job[FIRST_MOMENTS], job[SECOND_MOMENTS]
    adam_share(vectors, job[SIZE], rates, numbers[EPS], job[PART], SHARES)
    return 0


COMMANDS = {
    FORWARD: _forward,
    BACKWARD: _backward,
    WEIGHT_GRADS: _weight_grads,
    PACK: _pack,
    SQUARES: _squares,
    ADAM: _adam,
}


@once
def pass_entries() -> list[int]:
    """The addresses of all commands, in their order, for a team."""
    signature = types.int64(*[types.int64] * 5)
    _kept.extend(cached_cfunc(signature, error_model="numpy")(COMMANDS[k]) for k in range(len(COMMANDS)))
    return [function.address for function in _kept]


_kept: list[Any] = []  # compiled functions, whose addresses are in use


def new_plan() -> np.ndarray:
    """A plan with the addresses of the products."""
    plan = np.zeros(PLAN_SIZE, np.int64)
    plan[PRODUCT], plan[OUTER] = product_addresses()
    return plan
