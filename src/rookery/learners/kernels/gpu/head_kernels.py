"""Parts of Triton kernels: what `heads.py` does with a network's outputs, on tiles of samples.

Outputs are [rows, padded outputs]; `actions` are pointers to the first number of each row's action. A categorical head
may have several parts (MultiDiscrete), each with columns of its own.
"""

# mypy: disable-error-code="no-untyped-def"
# Triton gives the arguments of kernels their types.

from __future__ import annotations

import triton
import triton.language as tl

from rookery.learners.kernels.gpu.perceptron_kernels import sigmoid

FORBIDDEN = tl.constexpr(-1e9)  # as in `heads.py`
LOWEST = tl.constexpr(-1e30)  # below every output
HALF_LOG_2_PI = tl.constexpr(0.9189385332046727)
HALF_LOG_2_PI_E = tl.constexpr(1.4189385332046727)


@triton.jit
def log_softmax(outputs, column, NET: tl.constexpr):
    """Log-probabilities of every choice, each normalised within its part; 0 in padding."""
    out = tl.zeros_like(outputs)
    for part in tl.static_range(len(NET.head.parts)):
        inside = (column >= NET.head.part_at[part]) & (column < NET.head.part_at[part + 1])
        logits = tl.where(inside[None, :], outputs, LOWEST)
        shifted = logits - tl.max(logits, 1)[:, None]
        total = tl.sum(tl.where(inside[None, :], tl.exp(shifted), 0.0), 1)
        out = tl.where(inside[None, :], shifted - tl.log(total)[:, None], out)
    return out


@triton.jit
def taken(actions, inside, column, NET: tl.constexpr):
    """Which choices were taken, 1 or 0, [rows, padded outputs]."""
    out = tl.zeros((inside.shape[0], column.shape[0]), tl.float32)
    for part in tl.static_range(len(NET.head.parts)):
        choice = tl.load(actions + part, mask=inside, other=0).to(tl.int32) + NET.head.part_at[part]
        out += tl.where(column[None, :] == choice[:, None], 1.0, 0.0)
    return out


@triton.jit
def load_actions(actions, inside, column, NET: tl.constexpr):
    """Actions with one number for each output, as float32; 0 in padding."""
    within = inside[:, None] & (column[None, :] < NET.outputs)
    return tl.load(actions[:, None] + column[None, :], mask=within, other=0).to(tl.float32)


@triton.jit
def log_sigmoid(x):
    return tl.minimum(x, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def load_log_std(flat, column, NET: tl.constexpr):
    """The logarithms of a Gaussian head's standard deviations; 0 in padding."""
    return tl.load(flat + NET.log_std_at + column, mask=column < NET.outputs, other=0.0)


@triton.jit
def log_prob(outputs, actions, inside, flat, NET: tl.constexpr):
    """Log-probabilities of actions, [rows]."""
    column = tl.arange(0, NET.p_outputs)
    if NET.head.kind == "categorical":
        log_probs = log_softmax(outputs, column, NET)
        out = tl.sum(taken(actions, inside, column, NET) * log_probs, 1)
    elif NET.head.kind == "bernoulli":
        signs = load_actions(actions, inside, column, NET) * 2.0 - 1.0
        out = tl.sum(tl.where(column[None, :] < NET.outputs, log_sigmoid(outputs * signs), 0.0), 1)
    else:
        log_std = load_log_std(flat, column, NET)
        distance = (load_actions(actions, inside, column, NET) - outputs) * tl.exp(-log_std)[None, :]
        distance = tl.where(column[None, :] < NET.outputs, distance, 0.0)
        out = -0.5 * tl.sum(distance * distance, 1) - (tl.sum(log_std, 0) + HALF_LOG_2_PI * NET.outputs)
    return out


@triton.jit
def surrogate(log_ratio, advantage, clip):
    """PPO's policy loss of each row, and its derivative by the log-probability."""
    ratio = tl.exp(log_ratio)
    plain = ratio * advantage
    clipped = tl.minimum(tl.maximum(ratio, 1.0 - clip), 1.0 + clip) * advantage
    return -tl.minimum(plain, clipped), tl.where(plain <= clipped, -plain, 0.0)


@triton.jit
def entropies(probs, log_probs, column, NET: tl.constexpr):
    """The entropy of each part, written into all its columns."""
    terms = -probs * log_probs
    out = tl.zeros_like(terms)
    for part in tl.static_range(len(NET.head.parts)):
        inside = (column >= NET.head.part_at[part]) & (column < NET.head.part_at[part + 1])
        total = tl.sum(tl.where(inside[None, :], terms, 0.0), 1)
        out = tl.where(inside[None, :], total[:, None], out)
    return out


@triton.jit
def policy_loss(outputs, actions, inside, old, advantage, clip, entropy_weight, flat, NET: tl.constexpr):
    """Of each row: the gradient of PPO's policy loss with its entropy bonus by the outputs and by log_std, the
    log-ratio, the loss and the entropy."""
    column = tl.arange(0, NET.p_outputs)
    real = column[None, :] < NET.outputs
    if NET.head.kind == "categorical":
        log_probs = log_softmax(outputs, column, NET)
        probs = tl.where(real, tl.exp(log_probs), 0.0)
        chosen = taken(actions, inside, column, NET)
        log_ratio = tl.sum(chosen * log_probs, 1) - old
        loss, moved = surrogate(log_ratio, advantage, clip)
        of_part = entropies(probs, log_probs, column, NET)
        grad = moved[:, None] * (chosen - probs) + entropy_weight * probs * (log_probs + of_part)
        entropy = -tl.sum(probs * log_probs, 1)
        log_std_grad = tl.zeros_like(outputs)
    elif NET.head.kind == "bernoulli":
        bits = load_actions(actions, inside, column, NET)
        log_ratio = tl.sum(tl.where(real, log_sigmoid(outputs * (bits * 2.0 - 1.0)), 0.0), 1) - old
        loss, moved = surrogate(log_ratio, advantage, clip)
        probs = sigmoid(outputs)
        grad = moved[:, None] * (bits - probs) + entropy_weight * outputs * probs * (1.0 - probs)
        terms = probs * log_sigmoid(outputs) + (1.0 - probs) * log_sigmoid(-outputs)
        entropy = -tl.sum(tl.where(real, terms, 0.0), 1)
        log_std_grad = tl.zeros_like(outputs)
    else:
        log_std = load_log_std(flat, column, NET)
        inverse = tl.exp(-log_std)[None, :]
        distance = tl.where(real, (load_actions(actions, inside, column, NET) - outputs) * inverse, 0.0)
        total = tl.sum(log_std, 0)
        log_ratio = -0.5 * tl.sum(distance * distance, 1) - (total + HALF_LOG_2_PI * NET.outputs) - old
        loss, moved = surrogate(log_ratio, advantage, clip)
        grad = moved[:, None] * distance * inverse
        log_std_grad = moved[:, None] * (distance * distance - 1.0) - entropy_weight
        entropy = tl.zeros_like(loss) + (total + HALF_LOG_2_PI_E * NET.outputs)
    keep = inside[:, None] & real
    return tl.where(keep, grad, 0.0), tl.where(keep, log_std_grad, 0.0), log_ratio, loss, entropy


@triton.jit
def value_loss(values, returns, old, limit, CLIPPED: tl.constexpr):
    """The critic's loss of each row, and its derivative by the value. `limit` keeps values near the old ones."""
    error = values - returns
    loss = 0.5 * error * error
    if CLIPPED:
        near = old + tl.minimum(tl.maximum(values - old, -limit), limit) - returns
        worse = 0.5 * near * near
        error = tl.where((tl.abs(values - old) <= limit) | (loss >= worse), error, 0.0)
        loss = tl.maximum(loss, worse)
    return loss, error
