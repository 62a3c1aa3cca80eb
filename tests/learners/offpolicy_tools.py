"""Tiny worlds and a loop for testing off-policy learners, without any engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.learners.learner import Learner, StepBatch


class Batch:
    """Envs that need nothing but arrays: each row has a position, and its episode ends by itself or by time."""

    def __init__(self, num_envs: int, limit: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.num_envs, self.limit = num_envs, limit
        self.position, self.age = self._start(num_envs), np.zeros(num_envs, np.int64)

    def _start(self, count: int) -> np.ndarray:
        return self.rng.uniform(-1, 1, count).astype(np.float32)

    def observe(self) -> Any:
        return self.position[:, None].copy()

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Changes positions; returns rewards and who terminated."""
        raise NotImplementedError

    def step(self, actions: np.ndarray) -> StepBatch:
        rewards, terminated = self.move(actions)
        self.age += 1
        truncated = (self.age >= self.limit) & ~terminated
        ended = np.flatnonzero(terminated | truncated)
        finals = (ended, [self.position[k : k + 1].copy() for k in ended]) if len(ended) else None
        self.position[ended], self.age[ended] = self._start(len(ended)), 0
        return StepBatch(self.observe(), rewards, terminated, truncated, finals)


class Centre(Batch):
    """Go to the middle: actions push, and being away from 0 costs."""

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        push = np.clip(actions.reshape(-1), -2, 2) / 10
        self.position = np.clip(self.position + push, -2, 2).astype(np.float32)
        return -(self.position.astype(np.float64) ** 2), np.abs(self.position) >= 2


class Corridor(Batch):
    """Go right: two actions, 0.2 to either side; the right end pays 1, the left end nothing, and both end it."""

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.position = (self.position + np.where(actions == actions.max(initial=1), 0.2, -0.2)).astype(np.float32)
        return (self.position >= 1).astype(np.float64), np.abs(self.position) >= 1


def play(learner: Learner, envs: Batch, rounds: int, observations: Any = None) -> Any:
    """As training does it: the learner learns between sending actions and recording what came of them."""
    observations = envs.observe() if observations is None else observations
    for _ in range(rounds):
        actions = learner.explore(observations, slice(0, envs.num_envs))
        while learner.ready():
            learner.update()
        answer = envs.step(actions)
        learner.record(slice(0, envs.num_envs), answer)
        observations = answer.observations
    return observations


def arrays(tree: Any, path: str = "") -> dict[str, Any]:
    """A state as a flat dict of leaves, for comparing two."""
    if not isinstance(tree, dict):
        return {path: tree}
    return {name: leaf for key, part in tree.items() for name, leaf in arrays(part, f"{path}/{key}").items()}


def assert_same(one: Any, two: Any) -> None:
    """Bit for bit."""
    first, second = arrays(one), arrays(two)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert np.array_equal(value, second[name]), name
