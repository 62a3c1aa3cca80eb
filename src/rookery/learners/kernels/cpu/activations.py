"""Activations of perceptrons and their slopes, as compilers turn them into vector instructions."""

from __future__ import annotations

import numpy as np

from rookery.learners.cached_njit import cached_njit

# Products and sums may be contracted. A division that might raise would keep the compiler from vectors.
compiled = cached_njit(nogil=True, fastmath={"contract"}, error_model="numpy")
TANH, RELU = 0, 1
KINDS = {"tanh": TANH, "relu": RELU}
# tanh(x) = x P(x^2) / Q(x^2) to within 4e-7, from which compilers make vector instructions, unlike math.tanh.
P0, P1, P2, P3, P4, P5, P6 = (
    np.float32(x)
    for x in (
        4.89352455891786e-03, 6.37261928875436e-04, 1.48572235717979e-05, 5.12229709037114e-08, -8.60467152213735e-11,
        2.00018790482477e-13, -2.76076847742355e-16,
    )
)  # fmt: skip
Q0, Q1, Q2, Q3 = (
    np.float32(x) for x in (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04, 1.19825839466702e-06)
)
FLAT = np.float32(7.9)  # beyond this tanh is 1


@compiled
def fast_tanh(x: np.float32) -> np.float32:
    """tanh to within 4e-7."""
    x = min(max(x, -FLAT), FLAT)
    z = x * x
    above = ((((((P6 * z + P5) * z + P4) * z + P3) * z + P2) * z + P1) * z + P0) * x
    return above / (((Q3 * z + Q2) * z + Q1) * z + Q0)


@compiled
def activate_numbers(values: np.ndarray, kind: int) -> None:
    """Apply the activation to all numbers, in place."""
    if kind == TANH:
        for k in range(len(values)):
            values[k] = fast_tanh(values[k])
    else:
        for k in range(len(values)):
            values[k] = max(values[k], np.float32(0.0))


@compiled
def multiply_by_slopes(grads: np.ndarray, values: np.ndarray, kind: int) -> None:
    """Turn gradients at the outputs of an activation, `values`, into those at its inputs, in place."""
    if kind == TANH:
        for k in range(len(grads)):
            grads[k] *= np.float32(1.0) - values[k] * values[k]
    else:
        for k in range(len(grads)):
            grad = grads[k]  # read in any case: so the choice is an instruction, and not a jump that goes either way
            grads[k] = grad if values[k] > np.float32(0.0) else np.float32(0.0)
