"""Passes through perceptrons in tasks for a team of threads: compiled code.

A task computes a block of a batch through all layers, or some rows of a weight's gradient over the whole batch. Each
number is summed by itself in the order of the batch. So none depends on how the work is divided, nor on the number of
threads. A task is a row of numbers, mostly addresses; `PassTeam` runs them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from rookery.learners.adam_pass import adam_range, adam_rates
from rookery.learners.cached_njit import cached_cfunc, cached_njit
from rookery.learners.kernels.cpu import pass_words as words
from rookery.learners.kernels.cpu.activations import activate_numbers, multiply_by_slopes
from rookery.learners.kernels.cpu.layer_table import COLUMNS, even, pack_layers, share, wide
from rookery.learners.kernels.cpu.memory_views import double_array, float_array, int_array
from rookery.learners.kernels.cpu.product_tiles import add_outer, multiply, product_addresses
from rookery.once import once

compiled = cached_njit(nogil=True, error_model="numpy")
ROWS_AT_ONCE = 128  # of the batch in a weight's gradient: as many as the first cache holds of both matrices

# What a task is told, as a plan: the addresses of the jobs, of both products, and of the threads' scratch memory.
PLAN_SIZE = 4
JOBS, PRODUCT, OUTER, SCRATCH = range(PLAN_SIZE)


@compiled
def _job(plan: np.ndarray, task: int) -> np.ndarray:
    return int_array(plan[JOBS] + 8 * task * words.JOB_SIZE, words.JOB_SIZE)


@compiled
def _layers(job: np.ndarray) -> np.ndarray:
    return int_array(job[words.LAYERS], (job[words.LAYER_COUNT], words.LAYER_SIZE))


@compiled
def _rows(layer: np.ndarray, address: int, stride: int, job: np.ndarray) -> int:
    """The address of a block's first row in a matrix of the layer."""
    return layer[address] + 4 * job[words.FIRST_ROW] * layer[stride]


def _forward(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """The outputs of all layers for a block of the batch."""
    plan = int_array(plan_address, PLAN_SIZE)
    job = _job(plan, task)
    layers, rows = _layers(job), job[words.ROW_COUNT]
    for k in range(len(layers)):
        layer = layers[k]
        inputs, out = (
            _rows(layer, words.INPUTS, words.INPUT_STRIDE, job),
            _rows(layer, words.OUTPUTS, words.OUTPUT_STRIDE, job),
        )
        stride, columns = layer[words.OUTPUT_STRIDE], wide(layer[words.OUTPUT_WIDTH])
        multiply(
            plan[PRODUCT], inputs, layer[words.INPUT_STRIDE], layer[words.WEIGHTS], even(layer[words.INPUT_WIDTH]),
            layer[words.BIAS], 0, out, stride, rows, columns,
        )  # fmt: skip
        if k < len(layers) - 1:
            activate_numbers(float_array(out, rows * stride), job[words.KIND])
    return 0


def _backward(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """The gradients at the outputs of all layers for a block of the batch, and at the inputs if they are wanted."""
    plan = int_array(plan_address, PLAN_SIZE)
    job = _job(plan, task)
    layers, rows = _layers(job), job[words.ROW_COUNT]
    for k in range(len(layers) - 1, -1, -1):
        layer = layers[k]
        if layer[words.INPUT_GRADS] == 0:
            continue
        grads, out = (
            _rows(layer, words.OUTPUT_GRADS, words.OUTPUT_STRIDE, job),
            _rows(layer, words.INPUT_GRADS, words.INPUT_STRIDE, job),
        )
        stride, columns = layer[words.INPUT_STRIDE], wide(layer[words.INPUT_WIDTH])
        multiply(
            plan[PRODUCT], grads, layer[words.OUTPUT_STRIDE], layer[words.BACK], even(layer[words.OUTPUT_WIDTH]),
            job[words.ZEROS], 0, out, stride, rows, columns,
        )  # fmt: skip
        if k > 0:
            came = _rows(layer, words.INPUTS, words.INPUT_STRIDE, job)
            multiply_by_slopes(float_array(out, rows * stride), float_array(came, rows * stride), job[words.KIND])
    return 0


def _weight_grads(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """Some rows of a weight's gradient: computed in memory of this thread, and copied to where they belong."""
    plan = int_array(plan_address, PLAN_SIZE)
    job = _job(plan, task)
    rows, columns = job[words.COUNT], wide(job[words.COLUMNS])
    scratch = plan[SCRATCH] + 4 * slot * job[words.SCRATCH_SIZE]
    found = float_array(scratch, (rows, columns))
    found[:] = np.float32(0.0)
    left_stride, right_stride = job[words.LEFT_STRIDE], job[words.RIGHT_STRIDE]
    for begin in range(0, job[words.BATCH], ROWS_AT_ONCE):
        left, right = job[words.LEFT] + 4 * begin * left_stride, job[words.RIGHT] + 4 * begin * right_stride
        inner = min(ROWS_AT_ONCE, job[words.BATCH] - begin)
        add_outer(plan[OUTER], left, left_stride, right, right_stride, inner, scratch, columns, rows, columns)
    down, across = job[words.DOWN], job[words.ACROSS]
    target = float_array(job[words.TARGET], (rows - 1) * down + (job[words.COLUMNS] - 1) * across + 1)
    for i in range(rows):
        for k in range(job[words.COLUMNS]):
            target[i * down + k * across] = found[i, k]
    return 0


def _pack(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """Copies of weights for products."""
    job = _job(int_array(plan_address, PLAN_SIZE), task)
    table = int_array(job[words.TABLE], (job[words.TABLE_ROWS], COLUMNS))
    flat, packed = (
        float_array(job[words.FLAT], job[words.FLAT_SIZE]),
        float_array(job[words.PACKED], job[words.PACKED_SIZE]),
    )
    pack_layers(table, flat, packed, job[words.SHARE], words.SHARES)
    return 0


@compiled
def _part(vector: int, low: int, high: int) -> np.ndarray:
    return float_array(vector + 4 * low, high - low)


def _squares(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """The sum of the squares of a part of a gradient."""
    job = _job(int_array(plan_address, PLAN_SIZE), task)
    low, high = share(job[words.SIZE], job[words.PART], words.SHARES)
    total = 0.0
    for grad in _part(job[words.GRADIENT], low, high):
        total += grad * grad
    double_array(job[words.SQUARE_SUMS], words.SHARES)[job[words.PART]] = total
    return 0


def _adam(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """A step of Adam on a part of the parameters."""
    job = _job(int_array(plan_address, PLAN_SIZE), task)
    low, high = share(job[words.SIZE], job[words.PART], words.SHARES)
    numbers, squares = double_array(job[words.NUMBERS], words.NUMBER_COUNT), 0.0
    for part in double_array(job[words.SQUARE_SUMS], words.SHARES):
        squares += part
    rates = adam_rates(math.sqrt(squares), numbers[words.STEPS], numbers[words.RATE], numbers[words.LIMIT])
    weights, gradient = _part(job[words.PARAMETERS], low, high), _part(job[words.GRADIENT], low, high)
    first, second = _part(job[words.FIRST_MOMENTS], low, high), _part(job[words.SECOND_MOMENTS], low, high)
    adam_range(weights, gradient, first, second, rates, numbers[words.EPS])
    return 0


COMMANDS = {
    words.FORWARD: _forward,
    words.BACKWARD: _backward,
    words.WEIGHT_GRADS: _weight_grads,
    words.PACK: _pack,
    words.SQUARES: _squares,
    words.ADAM: _adam,
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
