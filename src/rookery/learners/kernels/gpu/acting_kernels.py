"""Triton kernels of collecting: actions of a step, and what the envs returned for them."""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

import triton
import triton.language as tl

from rookery.learners.kernels.gpu.head_kernels import FORBIDDEN, LOWEST, load_log_std
from rookery.learners.kernels.gpu.perceptron_kernels import forward, load_features


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
            out = forward(x, flat + NET.critic_at, 1, NET)
            column = tl.arange(0, NET.p_outputs)
            value = tl.sum(tl.where(column[None, :] == 0, out, 0.0), 1)
            tl.store(final_values + at, value, mask=cut)


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
