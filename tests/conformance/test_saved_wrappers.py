"""States of envs that tell their own, on every backend: what is saved is a copy, and wrappers are not forgotten."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces, wrappers

from conformance.compare import same
from rookery.errors import StateError


class Grid(gym.Env):
    """Hands out its own array as its state, and continues in the one it is given."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self):
        self.grid = np.zeros(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.grid[:] = (options or {}).get("start", 0)
        return self.grid[:1].copy(), {}

    def step(self, action):
        self.grid += 1 + action
        return self.grid[:1].copy(), float(self.grid[0]), False, self.grid[0] > 12, {}

    def get_state(self):
        return {"grid": self.grid}

    def set_state(self, state):
        self.grid = state["grid"]


WRAPPED = {
    "bare": Grid,
    "frames": lambda: wrappers.FrameStackObservation(Grid(), 3),
    "normalised": lambda: wrappers.NormalizeReward(Grid()),
    "limited": lambda: wrappers.RecordEpisodeStatistics(wrappers.TimeLimit(Grid(), 9)),
    "sticky": lambda: wrappers.StickyAction(Grid(), 0.5),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_state_may_be_loaded_again_and_again(make, name):
    """Into the engine it is from, and into another: the same numbers each time, whatever the envs did in between."""
    envs, other = make(WRAPPED[name], 2), make(WRAPPED[name], 2)
    envs.reset(seed=1)
    for _ in range(4):
        envs.step([0, 1])
    state = envs.state_dict()
    expected = [envs.step([1, 0])[:4] for _ in range(8)]
    for engine in (envs, envs, other, other):
        engine.load_state_dict(state)
        assert same(expected, [engine.step([1, 0])[:4] for _ in range(8)])


class Holder(gym.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        self.running = (k for k in range(3))


def test_a_wrapper_that_cannot_be_saved_is_named(make):
    """Rather than omitted silently."""
    envs = make(lambda: Holder(Grid()), 2)
    envs.reset(seed=1)
    with pytest.raises(StateError, match="attribute `running` of Holder is a generator"):
        envs.state_dict()


@pytest.mark.parametrize("portable", [False, True])
def test_what_envs_are_reset_with_is_saved(make, portable):
    """Options from `reset_with` hold in the engine that continues, and none that it had before."""
    envs, other = make(Grid, 2), make(Grid, 2)
    envs.reset(seed=1), other.reset(seed=1)
    envs.reset_with({0: {"start": 5}})
    other.reset_with({1: {"start": 7}})
    other.load_state_dict(envs.state_dict(portable))
    assert other.reset()[0].ravel().tolist() == envs.reset()[0].ravel().tolist() == [5.0, 0.0]
