"""Any Gymnasium space for observations and actions, on every backend."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

import rookery
from conformance.compare import record, same
from conformance.worlds import SPACES, Sampler
from rookery.engine.batch import split


def _sampler(observation, action):
    return lambda: Sampler(observation, action)


@pytest.mark.parametrize("name", SPACES)
def test_observation_spaces(make, name):
    """Observations come back as SyncVectorEnv batches them, in value, dtype and shape."""
    maker = _sampler(name, "discrete")
    expected = record(SyncVectorEnv([maker] * 3), 12, seed=[1, 2, 3])
    got = record(make(maker, 3), 12, seed=[1, 2, 3])
    for mine, gyms in zip(got, expected, strict=True):
        assert same(mine[0], gyms[0])
        assert same(list(mine[1:-1]), list(gyms[1:-1]))


def test_large_observations(make):
    """A space's bounds are as large as an observation, and more than a socket holds; also where envs are added."""

    class Screen(gym.Env):
        observation_space = spaces.Box(0, 255, (3, 300, 400), np.uint8)
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.step(0)[0], {}

        def step(self, action):
            return self.np_random.integers(256, size=(3, 300, 400), dtype=np.uint8), 0.0, False, False, {}

    expected = record(SyncVectorEnv([Screen] * 5), 2, seed=[1, 2, 3, 4, 5])
    envs = make(Screen, 3)
    envs.resize(5)
    assert all(
        same(mine[0], gyms[0]) for mine, gyms in zip(record(envs, 2, seed=[1, 2, 3, 4, 5]), expected, strict=True)
    )


@pytest.mark.parametrize("name", SPACES)
def test_action_spaces(make, name):
    """Each env receives its own action, as a member of its single action space."""
    envs = make(_sampler("box", name), 3)
    envs.reset(seed=1)
    envs.action_space.seed(5)
    theirs = SyncVectorEnv([_sampler("box", name)] * 3)
    theirs.reset(seed=1)
    for _ in range(3):
        actions = envs.action_space.sample()
        envs.step(actions)
        theirs.step(actions)
        assert same(envs.get_attr("last_action"), theirs.get_attr("last_action"))


@pytest.mark.parametrize("name", ["box", "dict", "text", "graph"])
def test_final_observations_of_any_space(make, name):
    """In SAME_STEP mode the last observation of an episode arrives whole, beside the first of the next."""
    envs = make(_sampler(name, "discrete"), 2, autoreset_mode="same_step")
    one = rookery.make_vec(_sampler(name, "discrete"), 2, backend="serial", autoreset_mode="disabled")
    envs.reset(seed=3), one.reset(seed=3)
    for _ in range(5):
        _, _, terminated, _, infos = envs.step([0, 0])
        ends, *_ = one.step([0, 0])
    assert terminated.all()
    assert infos["_final_obs"].tolist() == [True, True]
    single = one.single_observation_space
    for i in range(2):
        mine, theirs = split(single, infos["final_obs"][i]), [leaf[i] for leaf in split(single, ends)]
        assert all(
            np.array_equal(a, b) if isinstance(a, (np.ndarray, np.generic)) else same(a, b)
            for a, b in zip(mine, theirs, strict=True)
        )
