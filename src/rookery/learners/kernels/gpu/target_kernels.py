"""Triton kernels between a rollout and its gradients: values, advantages, their moments, and records to learn from."""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

import triton
import triton.language as tl

from rookery.learners.kernels.gpu.head_kernels import log_prob
from rookery.learners.kernels.gpu.perceptron_kernels import forward, load_features


@triton.jit(do_not_specialize=["count"])
def evaluate(
    features, values, flat, mean, variance, count, NET: tl.constexpr, NORMALISE: tl.constexpr, BLOCK: tl.constexpr
):
    """The critic's values of rows of features [count, inputs]. Grid: programs."""
    column = tl.arange(0, NET.p_outputs)
    for tile in range(tl.program_id(0), tl.cdiv(count, BLOCK), tl.num_programs(0)):
        row = tile * BLOCK + tl.arange(0, BLOCK)
        rows = features + row.to(tl.int64) * NET.inputs
        x = load_features(rows, row < count, mean, variance, NET, NORMALISE)
        out = forward(x, flat + NET.critic_at, 1, NET)
        tl.store(values + row, tl.sum(tl.where(column[None, :] == 0, out, 0.0), 1), mask=row < count)


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
    real = inside[:, None] & (o[None, :] < NET.outputs)
    out = tl.load(outputs + (wide * NET.outputs)[:, None] + o[None, :], mask=real, other=0.0)
    numbers = record + RECORD.log_prob_at
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
