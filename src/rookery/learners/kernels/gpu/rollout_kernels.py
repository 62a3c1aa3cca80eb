"""Triton kernels of a rollout: acting, what the envs returned, and what is learned from it: values, advantages, their
moments, a shuffled order, and records."""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rookery.learners.kernels.gpu.policy_kernels import (
    FORBIDDEN,
    LOWEST,
    forward,
    load_features,
    load_log_std,
    log_prob,
    state_values,
)
from rookery.learners.kernels.gpu.triton_support import block_size, power_of_two, tiles

# --- collecting -------------------------------------------------------------------------------------------------------


@triton.jit
def choose(noisy, column, inside, actions, env_actions, NET: tl.constexpr):
    """Take the largest of each part's outputs plus noise, and store the choices."""
    HEAD: tl.constexpr = NET.head
    for part in tl.static_range(len(HEAD.parts)):
        within = (column >= HEAD.part_at[part]) & (column < HEAD.part_at[part + 1])
        choice = tl.argmax(tl.where(within[None, :], noisy, LOWEST), 1) - HEAD.part_at[part]
        tl.store(actions + part, choice.to(tl.int64), mask=inside)
        if HEAD.is_shifted:
            tl.store(env_actions + part, choice.to(tl.int64) + HEAD.starts[part], mask=inside)


@triton.jit
def store_outcome(
    row, inside, new_rewards, new_terminated, new_truncated, finals, mean, variance, flat, rewards, terminated, ended,
    starts, final_values, step, steps, start, envs, NET: tl.constexpr, NORMALISE: tl.constexpr, EVALUATE: tl.constexpr,
):  # fmt: skip
    """Store what the envs returned for the actions of `step`. If an episode of the tile was truncated, the critic's
    values of final observations are computed."""
    wide = row.to(tl.int64)
    at = step.to(tl.int64) * envs + start + wide
    tl.store(rewards + at, tl.load(new_rewards + row, mask=inside, other=0.0).to(tl.float32), mask=inside)
    is_terminated = tl.load(new_terminated + row, mask=inside, other=0) != 0
    is_truncated = tl.load(new_truncated + row, mask=inside, other=0) != 0
    has_ended = is_terminated | is_truncated
    tl.store(terminated + at, is_terminated.to(tl.uint8), mask=inside)
    tl.store(ended + at, has_ended.to(tl.uint8), mask=inside)
    tl.store(starts + at + envs, has_ended.to(tl.uint8), mask=inside & (step + 1 < steps))
    if EVALUATE:
        cut = has_ended & (is_terminated == 0)
        if tl.sum(cut.to(tl.int32), 0) > 0:
            x = load_features(finals + wide * NET.inputs, inside, mean, variance, NET, NORMALISE)
            tl.store(final_values + at, state_values(x, flat, NET), mask=cut)


@triton.jit(do_not_specialize=["step", "steps", "start", "count", "envs"])
def act(
    features, mean, variance, flat, noise, mask, low, high, outputs, actions, env_actions, observations, masks,
    new_rewards, new_terminated, new_truncated, finals, rewards, terminated, ended, starts, final_values,
    step, steps, start, count, envs, NET: tl.constexpr, NORMALISE: tl.constexpr, MASKED: tl.constexpr,
    STORE: tl.constexpr, RECORD: tl.constexpr, EVALUATE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Act for rows `start` to `start + count` of the envs, and store outputs and actions as those of `step`; with
    `STORE`, features as its observations too; with `RECORD`, what the envs returned for the step before. Grid: tiles of
    rows."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, wide = row < count, row.to(tl.int64)
    at = step.to(tl.int64) * envs + start + wide
    HEAD: tl.constexpr = NET.head
    if RECORD:
        store_outcome(
            row, inside, new_rewards, new_terminated, new_truncated, finals, mean, variance, flat, rewards, terminated,
            ended, starts, final_values, step - 1, steps, start, envs, NET, NORMALISE, EVALUATE,
        )  # fmt: skip
    x = load_features(features + wide * NET.inputs, inside, mean, variance, NET, NORMALISE)
    out = forward(x, flat + NET.actor_at, NET.outputs, NET)
    if STORE:
        k = tl.arange(0, NET.p_inputs)
        kept = inside[:, None] & (k[None, :] < NET.inputs)
        raw = tl.load((features + wide * NET.inputs)[:, None] + k[None, :], mask=kept, other=0.0)
        tl.store((observations + at * NET.inputs)[:, None] + k[None, :], raw, mask=kept)
    column = tl.arange(0, NET.p_outputs)
    real = inside[:, None] & (column[None, :] < NET.outputs)
    places = (at * NET.outputs)[:, None] + column[None, :]
    if MASKED:
        allowed = tl.load(mask + (wide * NET.outputs)[:, None] + column[None, :], mask=real, other=1)
        tl.store(masks + places, allowed, mask=real)
        out = tl.where(allowed != 0, out, FORBIDDEN)
    tl.store(outputs + places, out, mask=real)
    random = tl.load(noise + places, mask=real, other=0.0)
    if HEAD.kind == "categorical":
        choose(out + random, column, inside, actions + at * HEAD.actions, env_actions + wide * HEAD.actions, NET)
    elif HEAD.kind == "bernoulli":
        bits = (out + random) > 0
        tl.store(actions + places, bits.to(tl.int64), mask=real)
        tl.store(env_actions + (wide * NET.outputs)[:, None] + column[None, :], bits.to(tl.int8), mask=real)
    else:
        action = out + tl.exp(load_log_std(flat, column, NET))[None, :] * random
        tl.store(actions + places, action, mask=real)
        least = tl.load(low + column, mask=column < NET.outputs, other=0.0)
        most = tl.load(high + column, mask=column < NET.outputs, other=0.0)
        action = tl.minimum(tl.maximum(action, least[None, :]), most[None, :])
        tl.store(env_actions + (wide * NET.outputs)[:, None] + column[None, :], action, mask=real)


@triton.jit(do_not_specialize=["step", "steps", "start", "count", "envs"])
def record(
    new_rewards, new_terminated, new_truncated, finals, mean, variance, flat, rewards, terminated, ended, starts,
    final_values, step, steps, start, count, envs, NET: tl.constexpr, NORMALISE: tl.constexpr,
    EVALUATE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`store_outcome` for rows `start` to `start + count`. Grid: tiles of rows."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    store_outcome(
        row, row < count, new_rewards, new_terminated, new_truncated, finals, mean, variance, flat, rewards, terminated,
        ended, starts, final_values, step, steps, start, envs, NET, NORMALISE, EVALUATE,
    )  # fmt: skip


# --- what is learned from ---------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["count"])
def evaluate(
    features, values, flat, mean, variance, count, NET: tl.constexpr, NORMALISE: tl.constexpr, BLOCK: tl.constexpr
):
    """The values of rows of features [count, inputs]. Grid: programs."""
    for tile in range(tl.program_id(0), tl.cdiv(count, BLOCK), tl.num_programs(0)):
        row = tile * BLOCK + tl.arange(0, BLOCK)
        rows = features + row.to(tl.int64) * NET.inputs
        x = load_features(rows, row < count, mean, variance, NET, NORMALISE)
        tl.store(values + row, state_values(x, flat, NET), mask=row < count)


@triton.jit
def chain(later_factor, later_sum, factor, term):
    """Two steps of `sum = term + factor * later sum` as one."""
    return factor * later_factor, term + factor * later_sum


@triton.jit(do_not_specialize=["steps", "envs"])
def generalised_advantages(
    rewards, reward_variance, values, last_values, final_values, terminated, ended, advantages, steps, envs, gamma,
    gae_lambda, SCALE_REWARDS: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`ppo.gae`, from the last step to the first, `STEPS` steps at once. Grid: blocks of envs."""
    env, s = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, STEPS)
    carried = tl.zeros((BLOCK,), tl.float32)
    if SCALE_REWARDS:
        reward_scale = (1.0 / tl.sqrt(tl.load(reward_variance) + 1e-8)).to(tl.float32)
    for start in range(0, steps, STEPS):
        step = steps - 1 - start - s
        inside = (step[:, None] >= 0) & (env[None, :] < envs)
        at = step[:, None].to(tl.int64) * envs + env[None, :]
        reward = tl.load(rewards + at, mask=inside, other=0.0)
        if SCALE_REWARDS:
            reward = tl.minimum(tl.maximum(reward * reward_scale, -10.0), 10.0)
        value = tl.load(values + at, mask=inside, other=0.0)
        is_last = step[:, None] == steps - 1
        following = tl.load(values + at + envs, mask=inside & (step[:, None] < steps - 1), other=0.0)
        following += tl.load(last_values + env[None, :] + step[:, None] * 0, mask=inside & is_last, other=0.0)
        has_ended = tl.load(ended + at, mask=inside, other=0) != 0
        is_terminated = tl.load(terminated + at, mask=inside, other=0) != 0
        is_cut = has_ended & (is_terminated == 0) & inside
        following = tl.where(is_cut, tl.load(final_values + at, mask=is_cut, other=0.0), following)
        delta = reward + gamma * tl.where(is_terminated, 0.0, following) - value
        factor = tl.where(has_ended, 0.0, gamma * gae_lambda)
        factors, terms = tl.associative_scan((factor, delta), 0, chain)
        advantage = terms + factors * carried[None, :]
        tl.store(advantages + at, advantage, mask=inside)
        carried = tl.sum(tl.where(s[:, None] == STEPS - 1, advantage, 0.0), 0)


def launch_advantages(
    rewards: Tensor, reward_variance: Tensor | None, values: Tensor, last_values: Tensor, final_values: Tensor,
    terminated: Tensor, ended: Tensor, gamma: float, gae_lambda: float, out: Tensor,
) -> None:  # fmt: skip
    """Fill `out` [steps, envs]. Rewards are scaled by their variance, if it is given."""
    (steps, envs), block = rewards.shape, block_size(32, 16)
    generalised_advantages[(tiles(envs, block),)](
        rewards, rewards if reward_variance is None else reward_variance, values, last_values, final_values,
        terminated.view(torch.uint8), ended.view(torch.uint8), out, steps, envs, gamma, gae_lambda,
        SCALE_REWARDS=reward_variance is not None, STEPS=min(32, power_of_two(steps)), BLOCK=block,
    )  # fmt: skip


def advantages_on_device(
    rewards: Tensor, values: Tensor, next_values: Tensor, terminated: Tensor, ended: Tensor, gamma: float, lam: float
) -> Tensor:
    """As `ppo.gae`, by one kernel: in torch it is four small ones for each step."""
    given = [x.contiguous() for x in (rewards, values, next_values, terminated, ended)]
    rewards, values, next_values, terminated, ended = given
    out = torch.empty_like(values)
    # Where an episode was cut, the next value is that of its final observation.
    launch_advantages(rewards, None, values, next_values[-1], next_values, terminated, ended, gamma, lam, out)
    return out


@triton.jit(do_not_specialize=["total", "size"])
def advantage_moments(advantages, order, moments, total, size, CHUNKS: tl.constexpr, BLOCK: tl.constexpr):
    """Mean and sum of squared deviations of the advantages in chunks of each minibatch (Chan's formula within a chunk).
    Grid: chunks, minibatches, epochs."""
    chunk, minibatch, epoch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first = minibatch * size
    count = tl.minimum(total - first, size)
    length = (count + CHUNKS - 1) // CHUNKS
    stop = tl.minimum((chunk + 1) * length, count)
    seen, mean, squares = 0.0, 0.0, 0.0
    rows = order + epoch.to(tl.int64) * total + first
    for start in range(chunk * length, stop, BLOCK):
        m = start + tl.arange(0, BLOCK)
        inside = m < stop
        values = tl.load(advantages + tl.load(rows + m, mask=inside, other=0), mask=inside, other=0.0)
        new = tl.minimum(stop - start, BLOCK).to(tl.float32)
        new_mean = tl.sum(values, 0) / new
        away = tl.where(inside, values - new_mean, 0.0)
        delta = new_mean - mean
        squares += tl.sum(away * away, 0) + delta * delta * seen * new / (seen + new)
        mean += delta * new / (seen + new)
        seen += new
    at = moments + ((epoch * tl.num_programs(1) + minibatch) * CHUNKS + chunk) * 2
    tl.store(at, mean)
    tl.store(at + 1, squares)


@triton.jit(do_not_specialize=["count"])
def pack_records(
    features, mean, variance, actions, outputs, masks, advantages, values, flat, records, count,
    NET: tl.constexpr, RECORD: tl.constexpr, NORMALISE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Samples as records. The log-probability is that of the outputs at the time of acting. Grid: tiles of samples."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, wide = row < count, row.to(tl.int64)
    record = records + wide * RECORD.stride
    k, o, a = tl.arange(0, NET.p_inputs), tl.arange(0, NET.p_outputs), tl.arange(0, NET.p_outputs)
    x = load_features(features + wide * NET.inputs, inside, mean, variance, NET, NORMALISE)
    tl.store(record[:, None] + k[None, :], x, mask=inside[:, None] & (k[None, :] < NET.inputs))
    action_rows = actions + wide * RECORD.actions
    taken = inside[:, None] & (a[None, :] < RECORD.actions)
    action = tl.load(action_rows[:, None] + a[None, :], mask=taken, other=0).to(tl.float32)
    tl.store(record[:, None] + RECORD.features + a[None, :], action, mask=taken)
    if RECORD.masks > 0:
        choices = inside[:, None] & (o[None, :] < RECORD.masks)
        allowed = tl.load(masks + (wide * RECORD.masks)[:, None] + o[None, :], mask=choices, other=1).to(tl.float32)
        tl.store(record[:, None] + RECORD.masks_at + o[None, :], allowed, mask=choices)
    numbers = record + RECORD.log_prob_at
    if not NET.is_q:
        real = inside[:, None] & (o[None, :] < NET.outputs)
        out = tl.load(outputs + (wide * NET.outputs)[:, None] + o[None, :], mask=real, other=0.0)
        tl.store(numbers, log_prob(out, action_rows, inside, flat, NET), mask=inside)
    advantage = tl.load(advantages + row, mask=inside, other=0.0)
    value = tl.load(values + row, mask=inside, other=0.0)
    tl.store(numbers + 1, advantage, mask=inside)
    tl.store(numbers + 2, advantage + value, mask=inside)
    if RECORD.old_values:
        tl.store(numbers + 3, value, mask=inside)


@triton.jit(do_not_specialize=["steps", "envs"])
def discounted_returns(rewards, ended, running, returns, steps, envs, gamma, BLOCK: tl.constexpr):
    """Discounted returns after each step, [steps, envs], by which rewards are scaled. Grid: blocks of envs."""
    env = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = env < envs
    total = tl.load(running + env, mask=inside, other=0.0)
    at = env.to(tl.int64)
    for _ in range(steps):
        total = total * gamma + tl.load(rewards + at, mask=inside, other=0.0)
        tl.store(returns + at, total, mask=inside)
        total = tl.where(tl.load(ended + at, mask=inside, other=0) != 0, 0.0, total)
        at += envs
    tl.store(running + env, total, mask=inside)


@triton.jit
def mixed(x):
    """A hash of 32-bit words."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit(do_not_specialize=["count"])
def shuffle(order, keys, count, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    """One order for each key. [keys, count]"""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys + tl.program_id(1)).to(tl.uint32)
    size = count.to(tl.uint32)
    x = column.to(tl.uint32)
    for number in tl.static_range(ROUNDS):
        salt = mixed(key + (number * 0x9E3779B1) % 4294967296)
        partner = salt % size + size - x
        partner = tl.where(partner >= size, partner - size, partner)
        hashed = mixed(tl.maximum(x, partner) ^ salt)
        x = tl.where((hashed >> 31) == 1, partner, x)
    row = order + tl.program_id(1).to(tl.int64) * count
    tl.store(row + column, x.to(order.dtype.element_ty), mask=column < count)


def shuffle_on_device(count: int, keys: Tensor, dtype: torch.dtype, rounds: int) -> Tensor:
    """The order of each key, [keys, count], as `shuffle.py` has it: the same numbers."""
    order, block = torch.empty(len(keys), count, dtype=dtype, device=keys.device), 2048
    shuffle[(tiles(count, block), len(keys))](order, keys, count, rounds, block)
    return order
