"""PPO's update in tasks for a team of threads: compiled code, divided in the same way for any number of threads.

A gradient step is four commands, one after the other: slices of the minibatch (forward, loss and backward, into
gradients of their own), the sum of these gradients in the order of the slices, Adam, and the copies of the weights that
products read. A plan holds addresses and sizes; `PPOPlan` fills it.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types

from rookery.learners.cached_njit import (
    bool_array,
    cached_cfunc,
    compiled,
    double_array,
    float_array,
    inner,
    int_array,
    pointer_to,
)
from rookery.learners.kernels.cpu.asset_rows import (
    gather_assets,
    join_assets,
    mean_of_assets,
    part_assets,
    spread_mean,
)
from rookery.learners.kernels.cpu.layer_table import (
    BIAS,
    BIAS_GRAD,
    CHAINS,
    OUTPUTS,
    TABLE_WIDTH,
    adam_rates,
    adam_share,
    backward_block,
    forward_block,
    length_of_parts,
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
    q_grads,
    shift_and_scale,
    value_grads,
)
from rookery.learners.kernels.cpu.product_tiles import ROWS
from rookery.learners.kernels.cpu.slice_team import run_tasks
from rookery.once import once

BLOCK = 64  # rows that a thread computes at a time; a multiple of ROWS
MOST_SLICES, FEWEST_SLICES = 32, 8  # of a large minibatch: by how much memory their gradients take
TASKS = 16  # that the parameters are divided into, and the sum of the squares of their gradients
# Not Python's integers: Numba would compile what they are passed to again for each of them.
_commands: Any = np.arange(7)
STATS, SLICE, SUM, ADAM, PACK, VALUES, ACT = _commands
TERMS = 4  # of a slice: what the loss adds up

WORDS = (  # of a plan
    "flat", "gradient", "first", "second", "size",  # the parameters as one vector, and Adam's moments
    "table", "layers", "critic", "extra",  # of a LayerTable: rows; where the critic's begin and end
    "packed", "zeros", "partial", "partial_size",  # copies of weights, and gradients of slices
    "work", "work_size", "widest", "kind", "product", "outer",  # a thread's memory, the activation, two products
    "tasks",  # that Adam and the copies of weights are divided into; no number depends on it
    "features", "width", "values_out", "rows", "act_tasks",  # inputs, and what the commands VALUES and ACT fill
    "block", "scratch",  # samples that a thread computes at a time, and numbers of its memory for the loss
    "assets", "columns", "seen", "each",  # rows of a sample; of shared nets: what they read, and outputs of an asset
    "order", "begin", "count", "slices", "most_slices", "minibatch",  # of the present minibatch
    "is_q", "gaussian", "sizes", "parts", "actions", "log_probs", "advantages", "masks", "outputs", "values", "returns",
    "total", "terms", "moments", "squares", "numbers", "normalise",
)  # fmt: skip
PLAN = np.dtype([(name, np.int64) for name in WORDS])
OPTIONS = ("clip", "entropy", "value_weight", "value_limit", "learning_rate", "eps", "max_norm", "steps")
NUMBERS = np.dtype([(name, np.float64) for name in OPTIONS])
_plan_pointer, _numbers_pointer = pointer_to(numba.from_dtype(PLAN)), pointer_to(numba.from_dtype(NUMBERS))


@inner
def plan_at(address: int) -> Any:
    """The plan at an address, as a record."""
    return numba.carray(_plan_pointer(address), 1)[0]


@inner
def numbers_at(address: int) -> Any:
    """The options of an update."""
    return numba.carray(_numbers_pointer(address), 1)[0]


# --- the commands ----------------------------------------------------------------------------------------------------


@inner
def _table(plan: Any) -> np.ndarray:
    return int_array(plan.table, (plan.layers, TABLE_WIDTH))


def _stats(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """By how much the advantages of a minibatch are shifted and scaled."""
    plan = plan_at(plan_address)
    size, total = plan.minibatch, plan.total
    picks = int_array(plan.order, total)[task * size : min(total, (task + 1) * size)]
    moments = double_array(plan.moments, (task + 1, 2))
    advantages = float_array(plan.advantages, total)
    moments[task, 0], moments[task, 1] = shift_and_scale(advantages, picks, plan.normalise != 0)
    return 0


def _slice(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """Forward, loss and backward of a slice of the minibatch; its gradients go to a place of their own."""
    plan = plan_at(plan_address)
    low, high = share(plan.count, task, plan.slices)
    partial = plan.partial + 4 * task * plan.partial_size
    sums = double_array(plan.terms + 8 * task * TERMS, TERMS)
    sums[:] = 0.0
    order = int_array(plan.order, plan.total)
    work = plan.work + 4 * slot * plan.work_size
    for begin in range(plan.begin + low, plan.begin + high, plan.block):
        picks = order[begin : min(begin + plan.block, plan.begin + high)]
        rows = _gather(plan, picks, work)
        first = begin == plan.begin + low
        _actor_block(plan, picks, work, rows, partial, first, sums)
        if not plan.is_q:
            _critic_block(plan, picks, work, rows, partial, first, sums)
    return 0


@inner
def _gather(plan: Any, picks: np.ndarray, inputs: int) -> int:
    """The inputs for some samples; rows beyond theirs are zero. Returns how many rows there are."""
    rows = (len(picks) * plan.assets + ROWS - 1) // ROWS * ROWS
    features, block = float_array(plan.features, (plan.total, plan.seen)), float_array(inputs, (rows, wide(plan.width)))
    for r in range(len(picks)):
        _fill(plan, features[picks[r]], block, r)
    block[len(picks) * plan.assets :] = np.float32(0.0)
    return rows


@inner
def _fill(plan: Any, sample: np.ndarray, block: np.ndarray, r: int) -> None:
    """The inputs for one sample."""
    if plan.columns:
        gather_assets(sample, int_array(plan.columns, (plan.assets, plan.width)), block[r * plan.assets :])
    else:
        out = block[r]
        for k in range(plan.width):
            out[k] = sample[k]


@inner
def _places(plan: Any, work: int) -> tuple[int, int, int, int]:
    """In a thread's memory, after the inputs: outputs of layers, two places for gradients, scratch."""
    activations = work + 4 * BLOCK * wide(plan.width)
    grads = activations + 4 * (plan.work_size - BLOCK * wide(plan.width) - 2 * BLOCK * plan.widest - plan.scratch)
    spare = grads + 4 * BLOCK * plan.widest
    return activations, grads, spare, spare + 4 * BLOCK * plan.widest


@inner
def _actor_block(
    plan: Any, picks: np.ndarray, work: int, rows: int, partial: int, first: bool, sums: np.ndarray
) -> None:
    activations, grad_place, spare, scratch = _places(plan, work)
    layers, total = _table(plan)[: plan.critic], plan.total
    found = forward_block(plan.product, layers, plan.packed, work, activations, rows, plan.kind)
    stride, size = wide(plan.each), plan.outputs
    outputs, grads = float_array(found, (rows, stride)), float_array(grad_place, (rows, stride))
    grads[:] = np.float32(0.0)
    of_rows, row_grads = outputs, grads
    if plan.columns:
        outputs = float_array(scratch, (len(picks), size))
        grads = float_array(scratch + 4 * len(picks) * size, (len(picks), size))
        join_assets(of_rows, plan.assets, outputs)
    if plan.masks:
        apply_masks(outputs, picks, bool_array(plan.masks, (total, plan.outputs)))
    log_probs, advantages = float_array(plan.log_probs, total), float_array(plan.advantages, total)
    numbers = numbers_at(plan.numbers)
    place = plan.begin // plan.minibatch
    moments = double_array(plan.moments, (place + 1, 2))[place]
    if plan.is_q:
        actions_taken = int_array(plan.actions, (total, plan.parts))
        returns = float_array(plan.returns, total)
        q_grads(
            outputs, int_array(plan.sizes, plan.parts), picks, actions_taken, returns, plan.count, grads, sums
        )  # fmt: skip
    elif plan.gaussian:
        extra = _table(plan)[plan.extra]
        log_std = float_array(plan.flat + 4 * extra[BIAS], size)
        actions, log_std_grads = (
            float_array(plan.actions, (total, size)),
            float_array(partial + 4 * extra[BIAS_GRAD], size),
        )
        if first:
            log_std_grads[:] = np.float32(0.0)
        gaussian_grads(
            outputs, log_std, picks, actions, log_probs, advantages, moments[0], moments[1], numbers.clip,
            numbers.entropy, plan.count, grads, log_std_grads, sums,
        )  # fmt: skip
    else:
        parts = plan.parts
        actions_taken = int_array(plan.actions, (total, parts))
        categorical_grads(
            outputs, int_array(plan.sizes, parts), picks, actions_taken, log_probs, advantages, moments[0],
            moments[1], numbers.clip, numbers.entropy, plan.count, grads, float_array(scratch, 2 * parts),
            sums,
        )  # fmt: skip
    if plan.columns:
        part_assets(grads, plan.assets, row_grads)
    zeros = plan.packed + 4 * plan.zeros
    backward_block(
        plan.product, plan.outer, layers, plan.packed, zeros, work, activations, grad_place, spare, rows, plan.kind,
        partial, first,
    )  # fmt: skip


@inner
def _critic_layers(plan: Any) -> np.ndarray:
    return _table(plan)[plan.critic : plan.extra]


@inner
def _critic_block(
    plan: Any, picks: np.ndarray, work: int, rows: int, partial: int, first: bool, sums: np.ndarray
) -> None:
    activations, grad_place, spare, scratch = _places(plan, work)
    layers, total, stride = _critic_layers(plan), plan.total, wide(1)
    found = forward_block(plan.product, layers, plan.packed, work, activations, rows, plan.kind)
    values, grads = float_array(found, (rows, stride)), float_array(grad_place, (rows, stride))
    grads[:] = np.float32(0.0)
    of_rows, row_grads = values, grads
    if plan.columns:
        values, grads = float_array(scratch, (len(picks), 1)), float_array(scratch + 4 * len(picks), (len(picks), 1))
        mean_of_assets(of_rows, plan.assets, values)
    numbers = numbers_at(plan.numbers)
    before, returns = float_array(plan.values, total), float_array(plan.returns, total)
    value_grads(values, picks, before, returns, numbers.value_limit, numbers.value_weight, plan.count, grads, sums)
    if plan.columns:
        spread_mean(grads, plan.assets, row_grads)
    zeros = plan.packed + 4 * plan.zeros
    backward_block(
        plan.product, plan.outer, layers, plan.packed, zeros, work, activations, grad_place, spare, rows, plan.kind,
        partial, first,
    )  # fmt: skip


def _sum(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """The gradients of all slices, added up."""
    plan = plan_at(plan_address)
    squares = double_array(plan.squares, TASKS)
    sum_gradients(_table(plan), plan.partial, plan.partial_size, plan.slices, plan.gradient, squares, task)
    return 0


def _adam(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """A step of Adam on a part of the parameters."""
    plan = plan_at(plan_address)
    numbers = numbers_at(plan.numbers)
    rates = adam_rates(_gradient_length(plan), numbers.steps, numbers.learning_rate, numbers.max_norm)
    vectors = plan.flat, plan.gradient, plan.first, plan.second
    adam_share(vectors, plan.size, rates, numbers.eps, task, plan.tasks)
    return 0


def _pack(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """Copies of the weights for products."""
    plan = plan_at(plan_address)
    pack_layers(_table(plan), plan.flat, plan.packed, task, plan.tasks)
    return 0


@inner
def _gradient_length(plan: Any) -> float:
    return length_of_parts(plan.squares, TASKS)


def _values(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """The critic's values of a block of rows."""
    plan = plan_at(plan_address)
    begin = task * plan.block
    last = min(begin + plan.block, plan.rows)
    _outputs(plan, _critic_layers(plan), plan.features, plan.values_out, 1, begin, last, slot)
    return 0


def _act(plan_address: int, command: int, task: int, end: int, slot: int) -> int:
    """The actor's outputs of a share of the rows."""
    plan = plan_at(plan_address)
    low, high = share(plan.rows, task, plan.act_tasks)
    act_rows(plan, plan.features, plan.values_out, low, high, slot)
    return 0


@inner
def act_rows(plan: Any, features: int, out: int, low: int, high: int, slot: int) -> None:
    """The actor's outputs of rows [low, high), from the address of all features to that of all outputs."""
    layers = _table(plan)[: plan.critic]
    for begin in range(low, high, plan.block):
        _outputs(plan, layers, features, out, plan.outputs, begin, min(begin + plan.block, high), slot)


@inner
def _outputs(
    plan: Any, layers: np.ndarray, inputs: int, out: int, columns: int, begin: int, end: int, slot: int
) -> None:
    """A net's outputs for a block of samples."""
    work, count = plan.work + 4 * slot * plan.work_size, end - begin
    rows = (count * plan.assets + ROWS - 1) // ROWS * ROWS
    features, block = float_array(inputs, (end, plan.seen)), float_array(work, (rows, wide(plan.width)))
    for r in range(count):
        _fill(plan, features[begin + r], block, r)
    block[count * plan.assets :] = np.float32(0.0)
    found = forward_block(plan.product, layers, plan.packed, work, _places(plan, work)[0], rows, plan.kind)
    values = float_array(found, (rows, wide(layers[len(layers) - 1, OUTPUTS])))
    target = float_array(out, (end, columns))[begin:]
    if not plan.columns:
        for r in range(count):
            for k in range(columns):
                target[r, k] = values[r, k]
    elif columns == plan.outputs:
        join_assets(values, plan.assets, target)
    else:
        mean_of_assets(values, plan.assets, target)


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
def gradient_step(team: int, entries: np.ndarray, plan_address: int) -> None:
    """The gradient of the present minibatch."""
    run_tasks(team, entries[SLICE], plan_address, SLICE, plan_at(plan_address).slices)
    run_tasks(team, entries[SUM], plan_address, SUM, TASKS // CHAINS)


@compiled
def run_epochs(team: int, entries: np.ndarray, plan_address: int, metrics: np.ndarray) -> int:
    """An epoch for each row of `metrics`, with the plan's orders one after the other. Returns how many steps there
    were."""
    plan, made = plan_at(plan_address), 0
    orders = plan.order
    for k in range(len(metrics)):
        plan.order = orders + 8 * k * plan.total
        made += _run_epoch(team, entries, plan_address, metrics[k])
    return made


@inner
def _run_epoch(team: int, entries: np.ndarray, plan_address: int, metrics: np.ndarray) -> int:
    """All minibatches of the plan's order; `metrics` takes those of the last one. Returns how many there were."""
    plan = plan_at(plan_address)
    total, size = plan.total, plan.minibatch
    minibatches = (total + size - 1) // size
    numbers = numbers_at(plan.numbers)
    run_tasks(team, entries[STATS], plan_address, STATS, minibatches)
    for k in range(minibatches):
        plan.begin, plan.count = k * size, min(size, total - k * size)
        plan.slices = min(plan.most_slices, (plan.count + plan.block - 1) // plan.block)
        gradient_step(team, entries, plan_address)
        numbers.steps += 1.0
        run_tasks(team, entries[ADAM], plan_address, ADAM, plan.tasks)
        run_tasks(team, entries[PACK], plan_address, PACK, plan.tasks)
    write_metrics(plan_address, metrics)
    return minibatches


@compiled
def write_metrics(plan_address: int, metrics: np.ndarray) -> None:
    """Divergence, policy loss, value loss, entropy and the gradient's length, in the order of `ppo.METRICS`; for
    values of actions, the returns' mean instead of the policy loss."""
    plan = plan_at(plan_address)
    terms, count = double_array(plan.terms, (plan.slices, TERMS)), plan.count
    metrics[0] = _total(terms[:, DIVERGENCE]) / count
    metrics[1] = -_total(terms[:, OBJECTIVE]) / count
    metrics[2] = _total(terms[:, CRITIC]) / count
    metrics[3] = _total(terms[:, ENTROPY]) / count
    metrics[4] = _gradient_length(plan)


@inner
def _total(values: np.ndarray) -> float:
    """By hand: Numba's own needs SciPy, also when the compiled code is read from disk."""
    total = 0.0
    for value in values:
        total += value
    return total
