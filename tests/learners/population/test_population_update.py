"""A population makes the updates that its members make alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.learners.algorithms.ppo import PPO
from rookery.learners.learner import StepBatch
from rookery.learners.population.population_update import PopulationUpdate
from rookery.learners.population.tensor_step import TensorStep
from rookery.learners.registry import PPOOptions

ENVS, UPDATES = 3, 3
SEEN = spaces.Box(-1, 1, (5,), np.float32)
ACTIONS = {
    "discrete": spaces.Discrete(3, start=2),
    "several": spaces.MultiDiscrete([2, 3]),
    "continuous": spaces.Box(-1, 1, (2,), np.float32),
}
# Members that differ in everything that may differ.
MEMBERS: list[dict[str, Any]] = [
    {"learning_rate": 3e-3, "normalise_rewards": True},
    {"learning_rate": 1e-4, "gamma": 0.9, "entropy": 0.02, "epochs": 2, "normalise_advantages": False},
    {"clip": 0.05, "clip_values": 0.1, "max_grad_norm": 0.1, "target_kl": 1e-4, "epochs": 5},
    {"gae_lambda": 0.8, "value_weight": 1.5, "learning_rate_schedule": "linear", "normalise_observations": True},
]


def make(action_space: spaces.Space, **common: Any) -> list[PPO]:
    """Members with seeds of their own; 10 steps of 3 envs in minibatches of 8, 8, 8 and 6 rows."""
    options = {"rollout_length": 10, "minibatches": 4, "hidden": [16, 20], **common}
    return [
        PPO(SEEN, action_space, PPOOptions(**options, **numbers), ENVS, seed) for seed, numbers in enumerate(MEMBERS)
    ]


def fill(learner: PPO, seed: int, mask: np.ndarray | None = None, reacts: bool = True) -> None:
    """A rollout with episodes that end in both ways. Unless `reacts`, nothing depends on the actions: a rounding error
    does not grow then."""
    random, rows = np.random.default_rng(seed), slice(0, ENVS)
    observations = random.uniform(-1, 1, (ENVS, 5)).astype(np.float32)
    while not learner.ready():
        actions = np.asarray(learner.explore(observations, rows, mask), np.float32).reshape(ENVS, -1)
        moved = np.sin(observations * 3 + actions.sum(1, keepdims=True) * reacts).astype(np.float32)
        terminated, truncated = random.random((2, ENVS)) < 0.1
        truncated &= ~terminated
        ended = np.flatnonzero(terminated | truncated)
        finals = (ended, [moved[k].copy() for k in ended]) if len(ended) else None
        rewards = moved[:, 0].copy()
        moved[ended] = random.uniform(-1, 1, (len(ended), 5))
        learner.record(rows, StepBatch(moved, rewards, terminated, truncated, finals, mask))
        observations = moved


def both(
    alone: list[PPO], together: PopulationUpdate, mask: np.ndarray | None = None, reacts: bool = True
) -> list[tuple[Any, Any]]:
    """Update members alone and together; returns the metrics of the last update."""
    found = []
    for turn in range(UPDATES):
        for k, (one, member) in enumerate(zip(alone, together.learners, strict=True)):
            one.progress = member.progress = turn / UPDATES
            fill(one, 10 * turn + k, mask, reacts)
            fill(member, 10 * turn + k, mask, reacts)
        found = list(zip([one.update() for one in alone], together.update(), strict=True))
    return found


@pytest.mark.parametrize("kind", ACTIONS)
def test_a_population_on_a_cpu_is_equal_to_its_members_alone_to_the_bit(kind: str) -> None:
    alone, together = make(ACTIONS[kind]), PopulationUpdate(make(ACTIONS[kind]))
    assert together.steps is None
    for of_one, of_member in both(alone, together):
        assert of_one == of_member
    for one, member in zip(alone, together.learners, strict=True):
        assert torch.equal(one.adam.flat, member.adam.flat)
        assert one.adam.steps == member.adam.steps
        assert torch.equal(one.generator.get_state(), member.generator.get_state())
        assert one.updates == member.updates == UPDATES
    assert len({float(member.adam.steps) for member in together.learners}) > 1  # one has rested


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ACTIONS)
def test_stacked_tensors_are_equal_to_float_tolerance(kind: str) -> None:
    alone, together = make(ACTIONS[kind]), PopulationUpdate(make(ACTIONS[kind]))
    together.steps = TensorStep(together.stack, torch.device("cpu"))
    for of_one, of_member in both(alone, together, reacts=False):
        assert of_one == pytest.approx(of_member, rel=1e-2, abs=1e-4)
    for one, member in zip(alone, together.learners, strict=True):
        assert torch.allclose(one.adam.flat, member.adam.flat, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_masks_are_respected_by_both_kinds_of_steps() -> None:
    mask = np.array([[1, 0, 1], [1, 1, 1], [0, 1, 1]], bool)
    for tensors in (False, True):
        alone, together = make(ACTIONS["discrete"]), PopulationUpdate(make(ACTIONS["discrete"]))
        if tensors:
            together.steps = TensorStep(together.stack, torch.device("cpu"))
        both(alone, together, mask, reacts=not tensors)
        for one, member in zip(alone, together.learners, strict=True):
            tolerance = 1e-4 if tensors else 0.0
            assert torch.allclose(one.adam.flat, member.adam.flat, rtol=0.0, atol=tolerance)


@pytest.mark.slow
def test_other_activations_are_updated_as_tensors() -> None:
    alone, together = (make(ACTIONS["discrete"], activation="silu") for _ in range(2))
    population = PopulationUpdate(together)
    assert isinstance(population.steps, TensorStep)
    both(alone, population, reacts=False)
    assert torch.allclose(alone[0].adam.flat, together[0].adam.flat, rtol=1e-3, atol=1e-4)


def test_a_member_goes_on_alone_from_the_state_of_a_population() -> None:
    alone, population = make(ACTIONS["discrete"]), PopulationUpdate(make(ACTIONS["discrete"]))
    both(alone, population)
    resumed = make(ACTIONS["discrete"])[0]
    resumed.load(population.learners[0].state())
    for learner in (alone[0], resumed):
        fill(learner, 99)
        learner.update()
    assert torch.equal(alone[0].adam.flat, resumed.adam.flat)
