"""The gradients of PPO's loss for a block of rows, and its advantages, each in one compiled pass.

On a CPU, with minibatches of a few hundred rows, the loss in single tensor operations and autograd's way back through
them take longer than the nets themselves. Tests hold these against autograd.

`picks` are the places of the rows in the rollout; `count` is the number of rows of the whole minibatch, over which the
loss is a mean. Sums of the block are added to `sums`: divergence from the policy that acted, objective, entropy and
loss of the critic.
"""

from __future__ import annotations

import math

import numpy as np

from rookery.learners.cached_njit import cached_njit, inner
from rookery.learners.heads import FORBIDDEN

DIVERGENCE, OBJECTIVE, ENTROPY, CRITIC = range(4)
FORBIDDEN_LOGIT = np.float32(FORBIDDEN)


@inner
def shift_and_scale(advantages: np.ndarray, picks: np.ndarray, normalise: bool) -> tuple[float, float]:
    """By how much to shift and scale the advantages of a minibatch, for mean 0 and standard deviation 1."""
    count = len(picks)
    if not normalise or count < 2:
        return 0.0, 1.0
    mean = 0.0
    for pick in picks:
        mean += advantages[pick]
    mean /= count
    squares = 0.0
    for pick in picks:
        squares += (advantages[pick] - mean) ** 2
    return mean, 1.0 / (math.sqrt(squares / (count - 1)) + 1e-8)


@inner
def _clipped(advantage: float, ratio: float, clip: float) -> tuple[float, float]:
    """The clipped objective of one row, and its gradient in the log-probability."""
    free, held = advantage * ratio, advantage * min(max(ratio, 1.0 - clip), 1.0 + clip)
    return (free, free) if free <= held else (held, 0.0)


@inner
def apply_masks(outputs: np.ndarray, picks: np.ndarray, masks: np.ndarray) -> None:
    """Forbid the logits that were forbidden when the rows were made, in place."""
    for r in range(len(picks)):
        allowed = masks[picks[r]]
        for j in range(len(allowed)):
            if not allowed[j]:
                outputs[r, j] = FORBIDDEN_LOGIT


@inner
def categorical_grads(
    outputs: np.ndarray,
    sizes: np.ndarray,
    picks: np.ndarray,
    actions: np.ndarray,
    log_probs: np.ndarray,
    advantages: np.ndarray,
    mean: float,
    scale: float,
    clip: float,
    entropy_weight: float,
    count: int,
    grads: np.ndarray,
    scratch: np.ndarray,
    sums: np.ndarray,
) -> None:
    """For choices, whose logits stand side by side: fills `grads`, like `outputs`. `scratch` has room for two numbers
    of each choice."""
    parts = len(sizes)
    entropies, level = scratch[:parts], scratch[parts : 2 * parts]
    for r in range(len(picks)):
        pick = picks[r]
        log_ratio = -log_probs[pick]
        first = 0
        for k in range(parts):  # grads hold the probabilities in the meantime
            last = first + sizes[k]
            top = outputs[r, first]
            for j in range(first + 1, last):
                top = max(top, outputs[r, j])
            total = np.float32(0.0)
            for j in range(first, last):
                grads[r, j] = math.exp(outputs[r, j] - top)
                total += grads[r, j]
            level[k] = top + math.log(total)
            entropies[k] = np.float32(0.0)
            for j in range(first, last):
                grads[r, j] /= total
                entropies[k] -= grads[r, j] * (outputs[r, j] - level[k])
            log_ratio += outputs[r, first + actions[pick, k]] - level[k]
            sums[ENTROPY] += entropies[k]
            first = last
        ratio = math.exp(log_ratio)
        clipped, grad = _clipped((advantages[pick] - mean) * scale, ratio, clip)
        sums[OBJECTIVE] += clipped
        sums[DIVERGENCE] += ratio - 1.0 - log_ratio
        first = 0
        for k in range(parts):
            last = first + sizes[k]
            for j in range(first, last):
                chance = grads[r, j]
                taken = 1.0 if j == first + actions[pick, k] else 0.0
                log = outputs[r, j] - level[k]
                both = -grad * (taken - chance) + entropy_weight * chance * (log + entropies[k])
                grads[r, j] = both / count
            first = last


@inner
def q_grads(
    outputs: np.ndarray,
    sizes: np.ndarray,
    picks: np.ndarray,
    actions: np.ndarray,
    returns: np.ndarray,
    count: int,
    grads: np.ndarray,
    sums: np.ndarray,
) -> None:
    """For values of choices, whose sum is fitted to the returns: fills `grads`, like `outputs`, which are zero."""
    for r in range(len(picks)):
        pick, first, value = picks[r], 0, np.float32(0.0)
        for k in range(len(sizes)):
            value += outputs[r, first + actions[pick, k]]
            first += sizes[k]
        error, first = value - returns[pick], 0
        for k in range(len(sizes)):
            grads[r, first + actions[pick, k]] = error / count
            first += sizes[k]
        sums[CRITIC] += 0.5 * error * error
        sums[OBJECTIVE] -= returns[pick]


@inner
def gaussian_grads(
    means: np.ndarray,
    log_std: np.ndarray,
    picks: np.ndarray,
    actions: np.ndarray,
    log_probs: np.ndarray,
    advantages: np.ndarray,
    mean: float,
    scale: float,
    clip: float,
    entropy_weight: float,
    count: int,
    grads: np.ndarray,
    std_grads: np.ndarray,
    sums: np.ndarray,
) -> None:
    """For continuous actions: fills `grads`, like `means`, and adds to `std_grads`, like `log_std`."""
    rows, size = len(picks), len(log_std)
    constant, entropy = 0.0, 0.0
    for j in range(size):
        constant += log_std[j] + 0.5 * math.log(2 * math.pi)
        entropy += log_std[j] + 0.5 * math.log(2 * math.pi * math.e)
    sums[ENTROPY] += rows * entropy
    for r in range(rows):
        pick = picks[r]
        log_ratio = -constant - log_probs[pick]
        for j in range(size):
            distance = (actions[pick, j] - means[r, j]) * math.exp(-log_std[j])
            grads[r, j] = distance
            log_ratio -= 0.5 * distance * distance
        ratio = math.exp(log_ratio)
        clipped, grad = _clipped((advantages[pick] - mean) * scale, ratio, clip)
        sums[OBJECTIVE] += clipped
        sums[DIVERGENCE] += ratio - 1.0 - log_ratio
        for j in range(size):
            distance = grads[r, j]
            grads[r, j] = -grad * distance * math.exp(-log_std[j]) / count
            std_grads[j] -= (grad * (distance * distance - 1.0) + entropy_weight) / count


@inner
def value_grads(
    values: np.ndarray,
    picks: np.ndarray,
    before: np.ndarray,
    returns: np.ndarray,
    limit: float,
    weight: float,
    count: int,
    grads: np.ndarray,
    sums: np.ndarray,
) -> None:
    """For the critic: fills `grads`. A `limit` that is not infinite holds values near what they were `before`."""
    for r in range(len(picks)):
        pick = picks[r]
        error = values[r, 0] - returns[pick]
        grad = error
        change = values[r, 0] - before[pick]
        held = before[pick] + min(max(change, -limit), limit) - returns[pick]
        if held * held > error * error:
            error, grad = held, held if abs(change) < limit else 0.0
        sums[CRITIC] += 0.5 * error * error
        grads[r, 0] = weight * grad / count


@cached_njit(nogil=True)
def compute_gae(
    rewards: np.ndarray,
    values: np.ndarray,
    next_values: np.ndarray,
    terminated: np.ndarray,
    ended: np.ndarray,
    gamma: float,
    lam: float,
    out: np.ndarray,
) -> None:
    """Fill `out` [steps, envs].

    `next_values` are the critic's values of the observation after each step: the final one where an episode ended, not
    the next episode's first. The value after a terminated episode is zero, and no advantage reaches across the end of
    an episode.
    """
    steps, envs = rewards.shape
    carried = np.zeros(envs, np.float32)
    for t in range(steps - 1, -1, -1):
        for i in range(envs):
            after = np.float32(0.0) if terminated[t, i] else next_values[t, i]
            delta = rewards[t, i] + np.float32(gamma) * after - values[t, i]
            if ended[t, i]:
                carried[i] = np.float32(0.0)
            carried[i] = delta + np.float32(gamma * lam) * carried[i]
            out[t, i] = carried[i]
