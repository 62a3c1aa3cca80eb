"""PPO really learns: small worlds with known best scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rookery.learners.agent import Agent
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.learner import StepBatch
from rookery.learners.registry import PPOOptions

NUM_ENVS = 16


class Corridor:
    """Seven cells; the way right ends at +1, left is a wall. A step costs 0.02; after 30 steps an episode is cut."""

    observation_space, action_space = spaces.Discrete(7), spaces.Discrete(2)
    best = 1 - 6 * 0.02

    def __init__(self, num_envs: int) -> None:
        self.cell, self.age = np.zeros((2, num_envs), np.int64)

    def observe(self) -> np.ndarray:
        return self.cell.copy()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rewards, terminated, truncated; `restart` follows."""
        self.cell = np.clip(self.cell + 2 * actions - 1, 0, 6)
        self.age += 1
        return (self.cell == 6) - 0.02, self.cell == 6, self.age >= 30

    def restart(self, ended: np.ndarray) -> None:
        self.cell[ended] = self.age[ended] = 0


class Cue:
    """A light, left or right, shows at the first of five steps; at the last, the same side must be named for +1."""

    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

    def __init__(self, num_envs: int) -> None:
        self.random = np.random.default_rng(0)
        self.age = np.zeros(num_envs, np.int64)
        self.side = self.random.integers(2, size=num_envs)

    def observe(self) -> np.ndarray:
        light = np.where(self.age == 0, 2 * self.side - 1, 0)
        return np.stack([light, self.age == 4], 1).astype(np.float32)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        last = self.age == 4
        self.age += 1
        return (last & (actions == self.side)).astype(np.float64), last, np.zeros_like(last)

    def restart(self, ended: np.ndarray) -> None:
        self.age[ended] = 0
        self.side[ended] = self.random.integers(2, size=ended.sum())


class Target:
    """Two numbers are shown; the action should be their sum and difference. One step an episode."""

    observation_space, action_space = spaces.Box(-0.5, 0.5, (2,)), spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, num_envs: int) -> None:
        self.random = np.random.default_rng(0)
        self.shown = self.random.uniform(-0.5, 0.5, (num_envs, 2)).astype(np.float32)

    def observe(self) -> np.ndarray:
        return self.shown.copy()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        wanted = np.stack([self.shown.sum(1), self.shown[:, 0] - self.shown[:, 1]], 1)
        yes = np.ones(len(actions), np.bool_)
        return -np.square(actions - wanted).sum(1), yes, ~yes

    def restart(self, ended: np.ndarray) -> None:
        self.shown[ended] = self.random.uniform(-0.5, 0.5, (ended.sum(), 2))


World = Corridor | Cue | Target


def train(world: World, steps: int, **options: Any) -> PPO:
    learner = PPO(world.observation_space, world.action_space, PPOOptions(**options), NUM_ENVS, seed=1)
    everyone = slice(0, NUM_ENVS)
    seen = world.observe()
    for _ in range(steps // NUM_ENVS):
        rewards, terminated, truncated = world.step(learner.explore(seen, everyone))
        places = np.flatnonzero(terminated | truncated)
        last = world.observe()
        world.restart(terminated | truncated)
        seen = world.observe()
        finals = (places, [last[k] for k in places]) if len(places) else None
        learner.record(everyone, StepBatch(seen, rewards, terminated, truncated, finals))
        if learner.ready():
            learner.update()
    return learner


def score(agent: Agent, world: World) -> float:
    """Mean return of a deterministic agent's first episode in each env."""
    over = np.zeros(len(world.observe()), np.bool_)
    returns = np.zeros(len(over))
    agent.reset_memory()
    while not over.all():
        rewards, terminated, truncated = world.step(agent.act(world.observe(), deterministic=True))
        returns += rewards * ~over
        over |= terminated | truncated
    return float(returns.mean())


def test_a_corridor_is_walked_straight() -> None:
    """After 6,000 steps the agent goes to the goal without a detour."""
    learner = train(Corridor(NUM_ENVS), 6_000, rollout_length=32, learning_rate=3e-3, hidden=[16], entropy=0.01)
    assert score(learner.agent, Corridor(1)) >= Corridor.best - 1e-9


def test_continuous_actions_find_their_target() -> None:
    """After 6,000 single-step episodes the squared error is below 0.01, from more than 0.3."""
    options = {"rollout_length": 16, "learning_rate": 5e-3, "hidden": [32], "log_std": -1.0, "normalise_rewards": True}
    assert score(train(Target(NUM_ENVS), 0, **options).agent, Target(200)) < -0.3
    assert score(train(Target(NUM_ENVS), 6_000, **options).agent, Target(200)) > -0.01


@pytest.mark.slow
def test_what_was_seen_first_is_remembered_by_a_recurrent_policy_only() -> None:
    """The recurrent policy names the side nearly always; without memory nobody can do better than chance."""
    options = {"rollout_length": 10, "learning_rate": 1e-2, "hidden": [16], "gamma": 0.9, "epochs": 3, "minibatches": 2}
    assert score(train(Cue(NUM_ENVS), 6_000, recurrent=16, **options).agent, Cue(500)) >= 0.95
    assert score(train(Cue(NUM_ENVS), 6_000, **options).agent, Cue(500)) <= 0.6
