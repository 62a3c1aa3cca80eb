"""PPO with envs that return tensors: the same numbers as with arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.learners.algorithms.ppo import PPO
from rookery.learners.learner import StepBatch, TensorFinals
from rookery.learners.registry import PPOOptions

ENVS, STEPS = 3, 6
ROWS = slice(0, ENVS)
OBSERVATIONS = spaces.Box(-5, 5, (4,), np.float32)


def learner(**options: object) -> PPO:
    return PPO(OBSERVATIONS, spaces.Discrete(2), PPOOptions(rollout_length=STEPS, hidden=[8], **options), ENVS, seed=3)


def outcomes(seed: int) -> list[tuple[np.ndarray, ...]]:
    random = np.random.default_rng(seed)
    steps = []
    for _ in range(STEPS):
        ends = random.random((2, ENVS)) < 0.3
        steps.append((random.normal(size=(2, ENVS, 4)).astype(np.float32), random.normal(size=ENVS), *ends))
    return steps


def fill_with_arrays(ppo: PPO, first: np.ndarray, steps: list[tuple[np.ndarray, ...]]) -> None:
    seen = first
    for (following, finals), rewards, terminated, truncated in steps:
        ppo.explore(seen, ROWS)
        ended = np.flatnonzero(terminated | truncated)
        kept = (ended, [finals[k] for k in ended]) if len(ended) else None
        ppo.record(ROWS, StepBatch(following, rewards, terminated, truncated, kept))
        seen = following


def fill_with_tensors(ppo: PPO, first: np.ndarray, steps: list[tuple[np.ndarray, ...]]) -> None:
    seen = torch.from_numpy(first)
    for observations, *results in steps:
        actions = ppo.explore(seen, ROWS)
        assert isinstance(actions, torch.Tensor)
        rewards, terminated, truncated = (torch.from_numpy(part) for part in results)
        following, finals = torch.from_numpy(observations)
        ppo.record(
            ROWS,
            StepBatch(following, rewards, terminated, truncated, TensorFinals(terminated | truncated, finals)),
        )
        seen = following


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "options", [{}, {"normalise_observations": True}, {"recurrent": 5}, {"normalise_rewards": True}]
)
def test_tensors_and_arrays_give_the_same_weights(options: dict[str, object]) -> None:
    by_arrays, by_tensors = (learner(accelerate=False, **options) for _ in range(2))
    for seed in range(3):
        first, steps = np.full((ENVS, 4), 0.1 * seed, np.float32), outcomes(seed)
        fill_with_arrays(by_arrays, first, steps)
        fill_with_tensors(by_tensors, first, steps)
        assert by_arrays.ready() and by_tensors.ready()
        one, other = by_arrays.update(), by_tensors.update()
        assert one == pytest.approx(other, rel=1e-4, abs=1e-6)
    torch.testing.assert_close(by_arrays.adam.flat, by_tensors.adam.flat, rtol=1e-4, atol=1e-6)


def test_a_started_rollout_of_tensors_is_saved_and_loaded() -> None:
    ppo, other = learner(accelerate=False), learner(accelerate=False)
    first, steps = np.zeros((ENVS, 4), np.float32), outcomes(1)
    fill_with_tensors(ppo, first, steps[:4])
    other.load(ppo.state())
    seen = steps[3][0][0]
    for each in (ppo, other):
        fill_with_tensors(each, seen, steps[4:])
    assert ppo.update() == other.update()
