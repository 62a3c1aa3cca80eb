"""Hindsight: which goals, rewards and ends the copies have, that it learns what plain replay does not, and resuming."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners.offpolicy_tools import Batch, assert_same, play
from rookery.errors import OptionError
from rookery.learners import registry
from rookery.learners.execution.hindsight import HindsightBuffer
from rookery.learners.learner import Learner, StepBatch

POINT = spaces.Box(-2, 2, (1,), np.float32)
SEEN = spaces.Dict(observation=POINT, achieved_goal=POINT, desired_goal=POINT)
PUSH = spaces.Box(-1, 1, (1,), np.float32)


def reward(achieved: np.ndarray, desired: np.ndarray, info: dict[str, Any]) -> np.ndarray:
    """-1 away from the goal, 0 there."""
    return -(np.abs(achieved - desired)[..., 0] > 0.1).astype(np.float64)


class Places(Batch):
    """Go where the goal is; a step is 0.2 long at most. Nothing but the reward 0 says that it is reached."""

    def __init__(self, num_envs: int, limit: int, seed: int) -> None:
        super().__init__(num_envs, limit, seed)
        self.goals = self._start(num_envs)

    def seen(self, position: np.ndarray, goals: np.ndarray) -> dict[str, np.ndarray]:
        place = position[..., None].copy()
        return {"observation": place, "achieved_goal": place, "desired_goal": goals[..., None].copy()}

    def observe(self) -> Any:
        return self.seen(self.position, self.goals)

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if actions.dtype.kind == "i":
            actions = actions - 1.0
        self.position = np.clip(self.position + 0.2 * actions.reshape(-1), -2, 2).astype(np.float32)
        rewards = reward(self.position[:, None], self.goals[:, None], {})
        return rewards, np.zeros(self.num_envs, np.bool_)

    def step(self, actions: np.ndarray) -> StepBatch:
        rewards, terminated = self.move(actions)
        self.age += 1
        ended = np.flatnonzero(self.age >= self.limit)
        finals = [self.seen(self.position[k], self.goals[k]) for k in ended]
        truncated = self.age >= self.limit
        self.position[ended], self.goals[ended], self.age[ended] = self._start(len(ended)), self._start(len(ended)), 0
        return StepBatch(self.observe(), rewards, terminated, truncated, (ended, finals) if len(ended) else None)


def make(name: str = "sac", num_envs: int = 2, seed: int = 0, **options: Any) -> Learner:
    small = {"hidden": [32], "batch_size": 32, "buffer_size": 5000, "start_steps": 40, "hindsight": 2, "gamma": 0.9}
    more = {"critic_hidden": [32]} if name == "xqc" else {}
    actions = spaces.Discrete(3) if name == "dqn" else PUSH
    learner = registry.make_learner(
        name, SEEN, actions, registry.option_classes()[name](**{**small, **more, **options}), num_envs, seed
    )
    if learner.hindsight is not None:
        learner.hindsight.compute_reward = reward
    return learner


@pytest.mark.parametrize("n_step", [1, 3])
def test_copies_by_hand(n_step: int) -> None:
    """Each goal was reached after a later step, rewards and ends are those of that goal, and nothing else changed."""
    learner = make(n_step=n_step, hindsight=3)
    play(learner, Places(2, 5, 1), 5)
    stored = learner.replay.batch(torch.arange(learner.replay.size))
    names = [leaf.path[0] for leaf in learner.leaves]
    now = dict(zip(names, (leaf[:, 0].numpy() for leaf in stored.leaves), strict=True))
    after = dict(zip(names, (leaf[:, 0].numpy() for leaf in stored.next_leaves), strict=True))
    assert learner.replay.size == 2 * 5 * (1 + 3)
    plain, copies = slice(0, 10), slice(10, None)
    for start in range(10, 40, 5):  # an episode's copy
        path = np.append(now["observation"][start : start + 5], after["observation"][start + 4])
        for t in range(5):
            row, goal = start + t, now["desired_goal"][start + t]
            assert goal in path[t + 1 :] and after["desired_goal"][row] == goal
            steps = min(n_step, 5 - t)
            rewards = [reward(path[t + k + 1 : t + k + 2, None], np.array([[goal]]), {})[0] for k in range(steps)]
            expected = sum(0.9**k * value for k, value in enumerate(rewards))
            assert stored.rewards[row].item() == pytest.approx(expected, abs=1e-6)
            assert stored.discounts[row].item() == pytest.approx(0.9**steps)  # truncated, not terminated
            assert after["observation"][row] == path[t + steps]
    assert (stored.rewards[copies] == 0).sum() > (stored.rewards[plain] == 0).sum()


def test_an_end_of_the_goal_ends_a_copy() -> None:
    """With the world's own `compute_terminated`."""
    learner = make(n_step=3)
    learner.hindsight.compute_terminated = lambda achieved, desired, info: reward(achieved, desired, info) == 0
    play(learner, Places(2, 5, 1), 5)
    stored = learner.replay.batch(torch.arange(10, 30))
    reached = (stored.next_leaves[0] - stored.next_leaves[1]).abs()[:, 0] <= 0.1
    assert torch.equal(stored.discounts == 0, reached) and reached.any()


@pytest.mark.parametrize("name", ["sac", "td3", "xqc", "dqn"])
def test_going_on_is_exact(name: str) -> None:
    """In the middle of episodes, which are saved too."""
    learner, envs = make(name), Places(2, 9, 0)
    seen = play(learner, envs, 31)
    other = make(name, seed=9)
    other.load(copy.deepcopy(learner.state()))
    play(other, copy.deepcopy(envs), 14, seen)
    play(learner, envs, 14, seen)
    assert learner.updates == other.updates > 0
    assert_same(learner.state(), other.state())


def test_long_episodes_and_other_numbers_of_envs() -> None:
    """There is room for all steps, and episodes of envs that stay go on."""
    learner, envs = make(num_envs=2, hindsight=1, start_steps=10**6), Places(2, 150, 0)
    seen = play(learner, envs, 100)
    learner.resize(3)
    envs.num_envs = 3
    for name in ("position", "goals", "age"):
        setattr(envs, name, np.append(getattr(envs, name), np.zeros(1, getattr(envs, name).dtype)))
    seen = {key: np.append(value, np.zeros((1, 1), np.float32), 0) for key, value in seen.items()}
    play(learner, envs, 50, seen)
    assert learner.replay.size == 2 * 100 + 3 * 50 + 2 * 150


def test_it_needs_goals() -> None:
    """In the observations, and a reward for each."""
    with pytest.raises(OptionError, match="achieved_goal"):
        registry.make_learner("sac", POINT, PUSH, registry.option_classes()["sac"](hindsight=4), 1)
    learner = make()
    assert isinstance(learner.hindsight, HindsightBuffer)
    learner.hindsight.compute_reward = None
    with pytest.raises(OptionError, match="compute_reward"):
        play(learner, Places(2, 5, 1), 5)
