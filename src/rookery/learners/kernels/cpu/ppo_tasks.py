"""PPO's update in tasks for a team of threads: compiled code, divided in the same way for any number of threads.

A gradient step is four commands, one after the other: slices of the minibatch (forward, loss and backward, into
gradients of their own), the sum of these gradients in the order of the slices, Adam, and the copies of the weights that
products read. A plan holds addresses and sizes; `PPOPlan` fills it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from rookery.learners.adam_pass import adam_range, adam_rates
from rookery.learners.cached_njit import bool_array, cached_cfunc, compiled, double_array, float_array, int_array
from rookery.learners.kernels.cpu.layer_table import (
    BIAS,
    BIAS_GRAD,
    TABLE_WIDTH,
    backward_block,
    forward_block,
    pack_layers,
    share,
    sum_gradients,
    wide,
)
from rookery.learners.kernels.cpu.ppo_loss import (
    CRITIC,
    DIVERGENCE,
    ENTROPY,
    OBJECTIVE,
    apply_masks,
    categorical_grads,
    gaussian_grads,
    shift_and_scale,
    value_grads,
)
from rookery.learners.kernels.cpu.ppo_words import (
    ACT,
    ACT_TASKS,
    ACTIONS,
    ADAM,
    ADVANTAGES,
    BEFORE,
    BEGIN,
    CLIP,
    COUNT,
    CRITIC_START,
    ENTROPY_WEIGHT,
    EPS,
    EXTRA,
    FEATURES,
    FIRST,
    FLAT,
    GAUSSIAN,
    GRADIENT,
    KIND,
    LAYERS,
    LOG_PROBS,
    MASKS,
    MAX_NORM,
    MINIBATCH,
    MOMENTS,
    NORMALISE,
    NUMBER_COUNT,
    ORDER,
    OUTER,
    OUTPUTS,
    PACK,
    PACKED,
    PACKED_SIZE,
    PARTIAL,
    PARTIAL_SIZE,
    PARTS,
    PLAN_SIZE,
    PRODUCT,
    RATE,
    REALS,
    RETURNS,
    SECOND,
    SIZE,
    SIZES,
    SLICE,
    SLICES,
    SQUARES,
    STATS,
    STEPS,
    SUM,
    TABLE,
    TERM_SUMS,
    TERMS,
    TOTAL,
    VALUE_LIMIT,
    VALUE_ROWS,
    VALUE_WEIGHT,
    VALUES,
    VALUES_OUT,
    WIDEST,
    WIDTH,
    WORK,
    WORK_SIZE,
    ZEROS,
)
from rookery.learners.kernels.cpu.product_tiles import ROWS
from rookery.learners.kernels.cpu.slice_team import run_tasks
from rookery.once import once

BLOCK = 64  # rows that a thread computes at a time; a multiple of ROWS
MOST_SLICES = 32  # of a minibatch
TASKS = 16  # that the parameters are divided into

# --- the commands ----------------------------------------------------------------------------------------------------


@compiled
def _table(plan: np.ndarray) -> np.ndarray:
    return int_array(plan[TABLE], (plan[LAYERS], TABLE_WIDTH))


@compiled
def _packed(plan: np.ndarray) -> np.ndarray:
    return float_array(plan[PACKED], plan[PACKED_SIZE])


def _stats(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """By how much the advantages of a minibatch are shifted and scaled."""
    plan = int_array(plan_address, PLAN_SIZE)
    size, total = plan[MINIBATCH], plan[TOTAL]
    picks = int_array(plan[ORDER], total)[task * size : min(total, (task + 1) * size)]
    moments = double_array(plan[MOMENTS], (task + 1, 2))
    advantages = float_array(plan[ADVANTAGES], total)
    moments[task, 0], moments[task, 1] = shift_and_scale(advantages, picks, plan[NORMALISE] != 0)
    return 0


def _slice(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """Forward, loss and backward of a slice of the minibatch; its gradients go to a place of their own."""
    plan = int_array(plan_address, PLAN_SIZE)
    low, high = share(plan[COUNT], task, plan[SLICES])
    partial = plan[PARTIAL] + 4 * task * plan[PARTIAL_SIZE]
    float_array(partial, plan[PARTIAL_SIZE])[:] = np.float32(0.0)
    sums = double_array(plan[TERM_SUMS] + 8 * task * TERMS, TERMS)
    sums[:] = 0.0
    order = int_array(plan[ORDER], plan[TOTAL])
    work = plan[WORK] + 4 * slot * plan[WORK_SIZE]
    for begin in range(plan[BEGIN] + low, plan[BEGIN] + high, BLOCK):
        picks = order[begin : min(begin + BLOCK, plan[BEGIN] + high)]
        rows = (len(picks) + ROWS - 1) // ROWS * ROWS
        _gather(plan, picks, work, rows)
        _actor_block(plan, picks, work, rows, partial, sums)
        _critic_block(plan, picks, work, rows, partial, sums)
    return 0


@compiled
def _gather(plan: np.ndarray, picks: np.ndarray, inputs: int, rows: int) -> None:
    """The features of some rows; rows beyond them are zero."""
    width, stride = plan[WIDTH], wide(plan[WIDTH])
    features, block = float_array(plan[FEATURES], (plan[TOTAL], width)), float_array(inputs, (rows, stride))
    for r in range(len(picks)):
        row, out = features[picks[r]], block[r]
        for k in range(width):
            out[k] = row[k]
    for r in range(len(picks), rows):
        block[r, :] = np.float32(0.0)


@compiled
def _places(plan: np.ndarray, work: int) -> tuple[int, int, int, int]:
    """In a thread's memory, after the inputs: outputs of layers, two places for gradients, scratch."""
    activations = work + 4 * BLOCK * wide(plan[WIDTH])
    grads = activations + 4 * (plan[WORK_SIZE] - BLOCK * wide(plan[WIDTH]) - 2 * BLOCK * plan[WIDEST] - 2 * plan[PARTS])
    spare = grads + 4 * BLOCK * plan[WIDEST]
    return activations, grads, spare, spare + 4 * BLOCK * plan[WIDEST]


@compiled
def _actor_block(plan: np.ndarray, picks: np.ndarray, work: int, rows: int, partial: int, sums: np.ndarray) -> None:
    activations, grad_place, spare, scratch = _places(plan, work)
    layers, total = _table(plan)[: plan[CRITIC_START]], plan[TOTAL]
    found = forward_block(plan[PRODUCT], layers, plan[PACKED], work, activations, rows, plan[KIND])
    stride = wide(plan[OUTPUTS])
    outputs, grads = float_array(found, (rows, stride)), float_array(grad_place, (rows, stride))
    grads[:] = np.float32(0.0)
    if plan[MASKS]:
        apply_masks(outputs, picks, bool_array(plan[MASKS], (total, plan[OUTPUTS])))
    log_probs, advantages = float_array(plan[LOG_PROBS], total), float_array(plan[ADVANTAGES], total)
    numbers = double_array(plan[REALS], NUMBER_COUNT)
    place = plan[BEGIN] // plan[MINIBATCH]
    moments = double_array(plan[MOMENTS], (place + 1, 2))[place]
    if plan[GAUSSIAN]:
        extra = _table(plan)[plan[EXTRA]]
        size = plan[OUTPUTS]
        log_std = float_array(plan[FLAT] + 4 * extra[BIAS], size)
        actions = float_array(plan[ACTIONS], (total, size))
        gaussian_grads(
            outputs, log_std, picks, actions, log_probs, advantages, moments[0], moments[1], numbers[CLIP],
            numbers[ENTROPY_WEIGHT], plan[COUNT], grads, float_array(partial + 4 * extra[BIAS_GRAD], size), sums,
        )  # fmt: skip
    else:
        parts = plan[PARTS]
        actions_taken = int_array(plan[ACTIONS], (total, parts))
        categorical_grads(
            outputs, int_array(plan[SIZES], parts), picks, actions_taken, log_probs, advantages, moments[0],
            moments[1], numbers[CLIP], numbers[ENTROPY_WEIGHT], plan[COUNT], grads, float_array(scratch, 2 * parts),
            sums,
        )  # fmt: skip
    zeros = plan[PACKED] + 4 * plan[ZEROS]
    backward_block(
        plan[PRODUCT], plan[OUTER], layers, plan[PACKED], zeros, work, activations, grad_place, spare, rows, plan[KIND],
        partial,
    )  # fmt: skip


@compiled
def _critic_layers(plan: np.ndarray) -> np.ndarray:
    return _table(plan)[plan[CRITIC_START] : plan[EXTRA]]


@compiled
def _critic_block(plan: np.ndarray, picks: np.ndarray, work: int, rows: int, partial: int, sums: np.ndarray) -> None:
    activations, grad_place, spare, _ = _places(plan, work)
    layers, total, stride = _critic_layers(plan), plan[TOTAL], wide(1)
    found = forward_block(plan[PRODUCT], layers, plan[PACKED], work, activations, rows, plan[KIND])
    values, grads = float_array(found, (rows, stride)), float_array(grad_place, (rows, stride))
    grads[:] = np.float32(0.0)
    numbers = double_array(plan[REALS], NUMBER_COUNT)
    before, returns = float_array(plan[BEFORE], total), float_array(plan[RETURNS], total)
    value_grads(values, picks, before, returns, numbers[VALUE_LIMIT], numbers[VALUE_WEIGHT], plan[COUNT], grads, sums)
    zeros = plan[PACKED] + 4 * plan[ZEROS]
    backward_block(
        plan[PRODUCT], plan[OUTER], layers, plan[PACKED], zeros, work, activations, grad_place, spare, rows, plan[KIND],
        partial,
    )  # fmt: skip


def _sum(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """The gradients of all slices, added up."""
    plan = int_array(plan_address, PLAN_SIZE)
    partial = float_array(plan[PARTIAL], (plan[SLICES], plan[PARTIAL_SIZE]))
    gradient = float_array(plan[GRADIENT], plan[SIZE])
    squares = double_array(plan[SQUARES], TASKS)
    squares[task] = sum_gradients(_table(plan), partial, plan[SLICES], gradient, task, TASKS)
    return 0


def _adam(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """A step of Adam on a part of the parameters."""
    plan = int_array(plan_address, PLAN_SIZE)
    low, high = share(plan[SIZE], task, TASKS)
    numbers, length = double_array(plan[REALS], NUMBER_COUNT), _gradient_length(plan)
    weights, gradient, first, second = (
        float_array(plan[FLAT], high)[low:], float_array(plan[GRADIENT], high)[low:],
        float_array(plan[FIRST], high)[low:], float_array(plan[SECOND], high)[low:],
    )  # fmt: skip
    rates = adam_rates(length, numbers[STEPS], numbers[RATE], numbers[MAX_NORM])
    adam_range(weights, gradient, first, second, rates, numbers[EPS])
    return 0


def _pack(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """Copies of the weights for products."""
    plan = int_array(plan_address, PLAN_SIZE)
    pack_layers(_table(plan), float_array(plan[FLAT], plan[SIZE]), _packed(plan), task, TASKS)
    return 0


@compiled
def _gradient_length(plan: np.ndarray) -> float:
    total = 0.0
    for part in double_array(plan[SQUARES], TASKS):
        total += part
    return math.sqrt(total)


def _values(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """The critic's values of a block of rows."""
    plan = int_array(plan_address, PLAN_SIZE)
    begin = task * BLOCK
    last = min(begin + BLOCK, plan[VALUE_ROWS])
    _outputs(plan, _critic_layers(plan), plan[FEATURES], plan[VALUES_OUT], 1, begin, last, slot)
    return 0


def _act(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """The actor's outputs of a share of the rows."""
    plan = int_array(plan_address, PLAN_SIZE)
    low, high = share(plan[VALUE_ROWS], task, plan[ACT_TASKS])
    act_rows(plan, plan[FEATURES], plan[VALUES_OUT], low, high, slot)
    return 0


@compiled
def act_rows(plan: np.ndarray, features: int, out: int, low: int, high: int, slot: int) -> None:
    """The actor's outputs of rows [low, high), from the address of all features to that of all outputs."""
    layers = _table(plan)[: plan[CRITIC_START]]
    for begin in range(low, high, BLOCK):
        _outputs(plan, layers, features, out, plan[OUTPUTS], begin, min(begin + BLOCK, high), slot)


@compiled
def _outputs(
    plan: np.ndarray, layers: np.ndarray, inputs: int, out: int, columns: int, begin: int, end: int, slot: int
) -> None:
    """A net's outputs for a block of rows."""
    work, count = plan[WORK] + 4 * slot * plan[WORK_SIZE], end - begin
    rows = (count + ROWS - 1) // ROWS * ROWS
    width, stride = plan[WIDTH], wide(plan[WIDTH])
    features, block = float_array(inputs, (end, width)), float_array(work, (rows, stride))
    for r in range(count):
        for k in range(width):
            block[r, k] = features[begin + r, k]
    block[count:] = np.float32(0.0)
    found = forward_block(plan[PRODUCT], layers, plan[PACKED], work, _places(plan, work)[0], rows, plan[KIND])
    values, target = float_array(found, (rows, wide(columns))), float_array(out, (end, columns))
    for r in range(count):
        for k in range(columns):
            target[begin + r, k] = values[r, k]


COMMANDS = {STATS: _stats, SLICE: _slice, SUM: _sum, ADAM: _adam, PACK: _pack, VALUES: _values, ACT: _act}


@once
def entry_points() -> np.ndarray:
    """The addresses of all commands, in their order, for a team."""
    signature = types.int64(*[types.int64] * 5)
    _kept.extend(cached_cfunc(signature, error_model="numpy")(COMMANDS[k]) for k in range(len(COMMANDS)))
    return np.array([function.address for function in _kept], np.int64)


_kept: list[Any] = []  # compiled functions, whose addresses are in use


# --- the caller's part ----------------------------------------------------------------------------------------------


@compiled
def gradient_step(team: int, entries: np.ndarray, plan_address: int, plan: np.ndarray) -> None:
    """The gradient of the present minibatch."""
    run_tasks(team, entries[SLICE], plan_address, SLICE, plan[SLICES])
    run_tasks(team, entries[SUM], plan_address, SUM, TASKS)


@compiled
def run_epoch(team: int, entries: np.ndarray, plan_address: int, plan: np.ndarray, metrics: np.ndarray) -> int:
    """All minibatches of the plan's order; `metrics` takes those of the last one. Returns how many there were."""
    total, size = plan[TOTAL], plan[MINIBATCH]
    minibatches = (total + size - 1) // size
    numbers = double_array(plan[REALS], NUMBER_COUNT)
    run_tasks(team, entries[STATS], plan_address, STATS, minibatches)
    for k in range(minibatches):
        plan[BEGIN], plan[COUNT] = k * size, min(size, total - k * size)
        plan[SLICES] = min(MOST_SLICES, (plan[COUNT] + BLOCK - 1) // BLOCK)
        gradient_step(team, entries, plan_address, plan)
        numbers[STEPS] += 1.0
        run_tasks(team, entries[ADAM], plan_address, ADAM, TASKS)
        run_tasks(team, entries[PACK], plan_address, PACK, TASKS)
    write_metrics(plan, metrics)
    return minibatches


@compiled
def write_metrics(plan: np.ndarray, metrics: np.ndarray) -> None:
    """Divergence, policy loss, value loss, entropy and the gradient's length, in the order of `ppo.METRICS`."""
    terms, count = double_array(plan[TERM_SUMS], (plan[SLICES], TERMS)), plan[COUNT]
    metrics[0] = terms[:, DIVERGENCE].sum() / count
    metrics[1] = -terms[:, OBJECTIVE].sum() / count
    metrics[2] = terms[:, CRITIC].sum() / count
    metrics[3] = terms[:, ENTROPY].sum() / count
    metrics[4] = _gradient_length(plan)
