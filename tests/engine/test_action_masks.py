"""Envs that refuse some actions and say which: nothing that steps them with random actions trips over it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rookery
from rookery.engine.autotune import has_masks, legal, legal_batch, probe
from rookery.engine.contest import EnginePlan
from rookery.engine.env_factory import resolve
from rookery.testing import check_world
from rookery.tools.bench import bench
from rookery.tools.measurements import measure_trials
from rookery.tools.profile import profile_steps

pytestmark = pytest.mark.usefixtures("short_checks")


class Choosy(gym.Env):
    """Of nine actions from 5 to 13, a few are legal, others each time; the mask is in the info."""

    observation_space: gym.Space = gym.spaces.Box(0.0, 9.0, (1,))
    action_space = gym.spaces.Discrete(9, start=5)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.t = 0
        return self.shown()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        if not self.mask[action - 5]:
            raise ValueError(f"action {action} is not legal")
        self.t += 1
        observation, info = self.shown()
        return observation, 1.0, self.t == 5, False, info

    def shown(self) -> tuple[Any, dict]:
        self.mask = np.zeros(9, np.int8)
        self.mask[self.np_random.choice(9, 2, replace=False)] = 1
        return np.full(1, self.t, np.float32), {"action_mask": self.mask.copy()}


class Shown(Choosy):
    """The same with the mask in the observation."""

    observation_space = gym.spaces.Dict({"t": gym.spaces.Box(0.0, 9.0, (1,)), "action_mask": gym.spaces.MultiBinary(9)})

    def shown(self) -> tuple[Any, dict]:
        t, info = super().shown()
        return {"t": t, **info}, {}


both = pytest.mark.parametrize("world", [Choosy, Shown])


@both
def test_a_forbidden_action_stands_for_a_legal_one(world: type[Choosy]) -> None:
    env = world()
    last: Any = env.reset(seed=1)
    assert has_masks(env.action_space, last)
    allowed = (np.flatnonzero(env.mask) + 5).tolist()
    chosen = [legal(env.action_space, np.int64(a), last) for a in range(5, 14)]
    assert set(chosen) == set(allowed) and all(chosen[a - 5] == a for a in allowed)
    assert chosen == [legal(env.action_space, np.int64(a), last) for a in range(5, 14)]


def test_a_batch_gets_what_each_env_would() -> None:
    """Also where nothing is legal, as after an episode, and for actions that are none of the space."""
    random, space = np.random.default_rng(1), gym.spaces.Discrete(6, start=-3)
    for share in (0.0, 0.2, 0.5, 1.0):
        masks, actions = (random.random((40, 6)) < share).astype(np.int8), random.integers(-4, 4, 40)
        chosen = legal_batch(space, actions, ({}, {"action_mask": masks}))
        rows = zip(actions, masks, strict=True)
        assert chosen.tolist() == [legal(space, action, ({}, {"action_mask": mask})) for action, mask in rows]


def test_envs_without_masks_get_what_was_drawn() -> None:
    env = gym.make("CartPole-v1")
    last = env.reset(seed=1)
    action, actions = object(), object()
    assert not has_masks(env.action_space, last)
    assert legal(env.action_space, action, last) is action
    assert legal_batch(env.action_space, actions, last) is actions
    assert legal(gym.spaces.Box(0, 1), action, ({}, {"action_mask": [1]})) is action


def test_no_legal_action_is_no_choice() -> None:
    space = gym.spaces.Discrete(3)
    assert legal(space, np.int64(2), (None, {"action_mask": np.zeros(3)})) == 2
    masks = np.array([[0, 0, 0], [0, 1, 0]])
    assert legal_batch(space, np.array([2, 2]), (None, {"action_mask": masks})).tolist() == [2, 1]


@both
def test_they_can_be_measured_and_chosen_for(world: type[Choosy]) -> None:
    """`make_vec` finds out what a step costs before it chooses a backend."""
    envs = rookery.make_vec(world, 4)
    last: Any = envs.reset(seed=1)
    for _ in range(20):
        last = envs.step(legal_batch(envs.single_action_space, np.full(4, 13), last))
    assert envs.finished_episodes()["length"].tolist() == [5] * 12  # none was cut short by a refused action
    envs.close()


@pytest.mark.few(1)
@both
def test_they_can_be_checked_and_profiled(world: type[Choosy]) -> None:
    assert check_world(world).problems == []
    assert profile_steps(resolve(world), 50).steps == 50


@pytest.mark.slow
def test_they_can_be_compared() -> None:
    """With other libraries and, as `rookery tune` does, in several ways of ours."""
    result = bench(Choosy, 4, against=("gymnasium",), seconds=0.1, backends=("serial",))
    assert [contender.status for contender in result.contenders] == ["ok"] * 3
    cost = probe(resolve(Choosy), seconds=0.05)
    plans = [EnginePlan("serial", 4, 1), EnginePlan("process", 4, 2)]
    assert all(trial.steps_per_second > 0 for trial in measure_trials(resolve(Choosy), cost, plans, seconds=0.05))
