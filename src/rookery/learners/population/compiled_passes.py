"""Everything but the products of an update, for all members in one compiled call: the passes of a single learner in a
loop over members."""

from __future__ import annotations

import numpy as np

from rookery.learners.cached_njit import cached_njit
from rookery.learners.fast.perceptron import activate, activation_backward
from rookery.learners.fast.ppo_loss import categorical_grads, gaussian_grads, value_grads
from rookery.learners.flat_adam import adam_step

compiled = cached_njit(nogil=True, error_model="numpy")


@compiled
def activate_all(values: np.ndarray, flat: np.ndarray, start: int, kind: int) -> None:
    """Biases begin at `start` of each member's row of `flat`."""
    for m in range(len(values)):
        activate(values[m], flat[m, start : start + values.shape[2]], kind)


@compiled
def activation_backward_all(grads: np.ndarray, values: np.ndarray, gradient: np.ndarray, start: int, kind: int) -> None:
    """The gradients of biases go to `start` of each member's row of `gradient`."""
    for m in range(len(values)):
        activation_backward(grads[m], values[m], gradient[m, start : start + values.shape[2]], kind)


@compiled
def categorical_all(
    outputs: np.ndarray,
    sizes: np.ndarray,
    actions: np.ndarray,
    log_probs: np.ndarray,
    advantages: np.ndarray,
    low: int,
    high: int,
    normalise: np.ndarray,
    clip: np.ndarray,
    entropy: np.ndarray,
    grads: np.ndarray,
    terms: np.ndarray,
) -> None:
    """Rows [low, high) of the shuffled rollouts are the minibatch. `terms` takes divergence, loss and entropy."""
    for m in range(len(outputs)):
        terms[m, 0], terms[m, 1], terms[m, 2] = categorical_grads(
            outputs[m], sizes, actions[m, low:high], log_probs[m, low:high], advantages[m, low:high], normalise[m],
            clip[m], entropy[m], grads[m],
        )  # fmt: skip


@compiled
def gaussian_all(
    outputs: np.ndarray,
    flat: np.ndarray,
    gradient: np.ndarray,
    start: int,
    actions: np.ndarray,
    log_probs: np.ndarray,
    advantages: np.ndarray,
    low: int,
    high: int,
    normalise: np.ndarray,
    clip: np.ndarray,
    entropy: np.ndarray,
    grads: np.ndarray,
    terms: np.ndarray,
) -> None:
    """As `categorical_all`; `log_std` begins at `start` of each member's row of `flat`."""
    end = start + outputs.shape[2]
    for m in range(len(outputs)):
        terms[m, 0], terms[m, 1], terms[m, 2] = gaussian_grads(
            outputs[m], flat[m, start:end], actions[m, low:high], log_probs[m, low:high], advantages[m, low:high],
            normalise[m], clip[m], entropy[m], grads[m], gradient[m, start:end],
        )  # fmt: skip


@compiled
def values_all(
    values: np.ndarray,
    before: np.ndarray,
    returns: np.ndarray,
    low: int,
    high: int,
    limit: np.ndarray,
    weight: np.ndarray,
    grads: np.ndarray,
    losses: np.ndarray,
) -> None:
    """The critics' gradients and losses."""
    for m in range(len(values)):
        losses[m] = value_grads(
            values[m, :, 0], before[m, low:high], returns[m, low:high], limit[m], weight[m], grads[m, :, 0]
        )


@compiled
def adam_all(
    flat: np.ndarray,
    gradient: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    steps: np.ndarray,
    rate: np.ndarray,
    eps: float,
    limit: np.ndarray,
    active: np.ndarray,
    norms: np.ndarray,
) -> None:
    """A step of every active member; `norms` takes the lengths of the gradients."""
    for m in range(len(flat)):
        if active[m]:
            steps[m] += 1.0
            norms[m] = adam_step(flat[m], gradient[m], first[m], second[m], steps[m], rate[m], eps, limit[m])
