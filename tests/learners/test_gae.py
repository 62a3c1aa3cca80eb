"""Advantages: against numbers worked out by hand, and against the definition written as plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.learners.algorithms.ppo import gae
from rookery.learners.kernels.cpu.ppo_loss import compute_gae


def estimate(*columns: list[float], gamma: float, lam: float) -> np.ndarray:
    """Advantages of one env from its columns of rewards, values, next values, terminated and ended."""
    rewards, values, next_values, terminated, ended = (np.array(column).reshape(-1, 1) for column in columns)
    numbers = (array.astype(np.float32) for array in (rewards, values, next_values))
    return both_ways(*numbers, terminated.astype(np.bool_), ended.astype(np.bool_), gamma=gamma, lam=lam)[:, 0]


def both_ways(*arrays: np.ndarray, gamma: float, lam: float) -> np.ndarray:
    """Advantages by the compiled pass, which are those of the plain one apart from rounding."""
    out = np.full(arrays[0].shape, np.nan, np.float32)
    compute_gae(*arrays, gamma, lam, out)
    plain = gae(*(torch.from_numpy(array) for array in arrays), gamma, lam)
    np.testing.assert_allclose(out, plain.numpy(), rtol=1e-5, atol=1e-5)
    return out


def test_termination_by_hand() -> None:
    """Nothing comes after a terminated step, whatever the critic thinks of its last observation (99)."""
    found = estimate([1, 2, 3, 4], [1, 1, 2, 2], [1, 99, 2, 4], [0, 1, 0, 0], [0, 1, 0, 0], gamma=0.5, lam=0.5)
    # delta: 1 + 1/2 - 1,  2 + 0 - 1,  3 + 2/2 - 2,  4 + 4/2 - 2;  a quarter of the next advantage is added
    np.testing.assert_array_equal(found, [0.5 + 1 / 4, 1, 2 + 4 / 4, 4])


def test_truncation_by_hand() -> None:
    """A truncated step is worth what the critic thinks of the final observation (6), and nothing is carried over it."""
    found = estimate([0, 1, 0, 1], [2, 2, 2, 4], [2, 2, 6, 2], [0, 0, 0, 0], [0, 0, 1, 0], gamma=0.5, lam=0.5)
    # delta: 0 + 2/2 - 2,  1 + 2/2 - 2,  0 + 6/2 - 2,  1 + 2/2 - 4
    np.testing.assert_array_equal(found, [-1 + 1 / 16, 0 + 1 / 4, 1, -2])


def test_lambda_zero_is_one_step_and_lambda_one_is_the_whole_return() -> None:
    """Lambda 0 gives the one-step error; lambda 1 the discounted return minus the value."""
    columns = [1, 1, 1], [5, 6, 7], [6, 7, 8], [0, 0, 0], [0, 0, 0]
    np.testing.assert_array_equal(estimate(*columns, gamma=0.5, lam=0.0), [1 + 3 - 5, 1 + 3.5 - 6, 1 + 4 - 7])
    np.testing.assert_array_equal(
        estimate(*columns, gamma=0.5, lam=1.0), [1 + 0.5 + 0.25 + 1 - 5, 1 + 0.5 + 2 - 6, 1 + 4 - 7]
    )


def slow_advantage(t: int, columns: list[np.ndarray], gamma: float, lam: float) -> float:
    """The definition: the sum over k of (gamma * lam)^k * delta(t + k), up to the end of the episode or rollout."""
    rewards, values, next_values, terminated, ended = columns
    total, weight = 0.0, 1.0
    for k in range(t, len(rewards)):
        after = 0.0 if terminated[k] else next_values[k]
        total += weight * (rewards[k] + gamma * after - values[k])
        if ended[k]:
            break
        weight *= gamma * lam
    return total


@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0)])
def test_random_rollouts_agree_with_the_definition(gamma: float, lam: float) -> None:
    """Every env of a random rollout gets the advantages of the plain double loop, apart from rounding."""
    random = np.random.default_rng(1)
    rewards, values, next_values = (random.normal(size=(40, 7)).astype(np.float32) for _ in range(3))
    ended = random.random((40, 7)) < 0.15
    terminated = ended & (random.random((40, 7)) < 0.5)
    out = both_ways(rewards, values, next_values, terminated, ended, gamma=gamma, lam=lam)
    for env in range(7):
        columns = [array[:, env] for array in (rewards, values, next_values, terminated, ended)]
        expected = [slow_advantage(t, columns, gamma, lam) for t in range(40)]
        np.testing.assert_allclose(out[:, env], expected, rtol=1e-4, atol=1e-4)
