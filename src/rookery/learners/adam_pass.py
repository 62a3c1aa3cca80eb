"""Steps of Adam on a CPU as compiled passes."""

from __future__ import annotations

import math

import numpy as np

from rookery.learners.cached_njit import cached_njit

BETAS = 0.9, 0.999
Rates = tuple[float, float, float]  # factors of the gradient, of a step, and of the root of the second moment


@cached_njit(nogil=True, error_model="numpy")
def adam_rates(length: float, steps: float, rate: float, limit: float) -> Rates:
    """What a step with a gradient of this length needs, if it is clipped to `limit`."""
    cut, stride = min(1.0, limit / (length + 1e-6)), rate / (1 - BETAS[0] ** steps)
    return cut, stride, 1 / math.sqrt(1 - BETAS[1] ** steps)


@cached_njit(nogil=True, error_model="numpy")
def adam_range(
    weights: np.ndarray, gradient: np.ndarray, first: np.ndarray, second: np.ndarray, rates: Rates, eps: float
) -> None:
    """A step of Adam on some weights, in one pass: each operation alone takes microseconds."""
    cut, stride, spread = np.float32(rates[0]), np.float32(rates[1]), np.float32(rates[2])
    keep1, keep2 = np.float32(BETAS[0]), np.float32(BETAS[1])
    new1, new2 = np.float32(1 - BETAS[0]), np.float32(1 - BETAS[1])
    least = np.float32(eps)
    for k in range(len(weights)):
        grad = gradient[k] * cut
        first[k] = keep1 * first[k] + new1 * grad
        second[k] = keep2 * second[k] + new2 * grad * grad
        weights[k] -= stride * first[k] / (np.sqrt(second[k]) * spread + least)


@cached_njit(nogil=True, fastmath={"reassoc"}, error_model="numpy")
def adam_step(
    weights: np.ndarray,
    gradient: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    steps: float,
    rate: float,
    eps: float,
    limit: float,
) -> float:
    """Clip the gradient to `limit` and make a step of Adam; returns the gradient's length."""
    squares = 0.0
    for grad in gradient:
        squares += grad * grad
    length = math.sqrt(squares)
    adam_range(weights, gradient, first, second, adam_rates(length, steps, rate, limit), eps)
    return length
