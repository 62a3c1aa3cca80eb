"""Small kernel worlds that show one property each."""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces

from rookery.kernel.random import integer, normal, uniform
from rookery.kernel.world import KernelWorld


class Walker(KernelWorld):
    """A random walk with infos, a mask, a table, an array field and scratch memory: everything at once."""

    observation_space = spaces.Box(-100, 100, (3,), np.float32)
    action_space = spaces.Discrete(3)
    state = {"place": "f8", "trail": ("f4", (2,)), "turns": "i4"}
    scratch = {"steps": ("f8", (2,))}
    info = {"distance": "f4", "turns": "i4"}
    parameters = {"stride": 1.0, "limit": 6.0}
    tables = {"slopes": np.array([0.5, -0.25, 0.125])}
    time_limit = 12

    @staticmethod
    def reset(state):
        state.place = uniform(state, -1.0, 1.0)
        state.trail[0] = normal(state, 0.0, 1.0)

    @staticmethod
    def step(state, action, params, tables, scratch, info):
        scratch.steps[0] = (action - 1) * params.stride
        scratch.steps[1] = tables.slopes[action] * uniform(state, 0.0, 1.0)
        state.trail[1] = state.trail[0]
        state.trail[0] = state.place
        state.place += scratch.steps[0] + scratch.steps[1]
        state.turns += integer(state, 0, 3)
        info.distance = abs(state.place)
        info.turns = state.turns
        return -abs(state.place), abs(state.place) > params.limit

    @staticmethod
    def observe(state, out):
        out[0] = state.place
        out[1] = state.trail[0]
        out[2] = state.trail[1]

    @staticmethod
    def action_mask(state, out):
        out[0] = state.place > -5.0
        out[1] = 1
        out[2] = state.place < 5.0


class Stairs(KernelWorld):
    """Short steps, and two kinds of long ones: counts both, and names the second by a number that is too high."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(3)
    state = {"place": "f8", "climbs": "i8"}
    hard_kinds = 2
    time_limit = 9

    @staticmethod
    def reset(state):
        state.place = uniform(state, 0.0, 1.0)

    @staticmethod
    def step(state, action):
        state.place += 1.0
        for _ in range(action):
            state.place *= 1.5
            state.climbs += 1
        return state.place, False

    @staticmethod
    def easy(state, action):
        if action == 0:
            state.place += 1.0
            return 0, state.place, False
        return (1 if action == 1 else 7), 0.0, False

    @staticmethod
    def observe(state, out):
        out[0] = state.place
        out[1] = state.climbs


def half(x):
    """To be reached through this module."""
    return 0.5 * x


class Steerer(KernelWorld):
    """Continuous actions in one dimension; refuses what is out of range."""

    observation_space = spaces.Box(-math.inf, math.inf, (1,), np.float64)
    action_space = spaces.Box(-1, 1, (2,), np.float32)
    state = {"x": "f8"}

    @staticmethod
    def reset(state):
        state.x = uniform(state, 0.0, 1.0)

    @staticmethod
    def step(state, action):
        state.x += action[0] - 0.5 * action[1]
        return state.x, state.x > 3.0

    @staticmethod
    def observe(state, out):
        out[0] = state.x


class Tug(KernelWorld):
    """Two agents pull at one rope."""

    observation_space = spaces.Box(-20, 20, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)
    num_agents = 2
    state = {"rope": "f8"}
    info = {"pull": "f4"}
    time_limit = 18

    @staticmethod
    def reset(state):
        state.rope = uniform(state, -0.5, 0.5)

    @staticmethod
    def step(state, action, rewards, info):
        for agent in range(2):
            info[agent].pull = action[agent, 0]
        change = action[0, 0] - action[1, 0]
        state.rope += change
        rewards[0] = change
        rewards[1] = -change
        return abs(state.rope) > 4.0

    @staticmethod
    def observe(state, out, agent):
        out[0] = state.rope if agent == 0 else -state.rope
        out[1] = state.steps


class Poisoned(Walker):
    """Goes wrong as told: 1 NaN in the observation, 2 a value out of the space, 3 an infinite reward, 4 NaN as soon as
    it begins."""

    parameters = {"stride": 1.0, "limit": 50.0, "harm": 0, "at": 3}

    @staticmethod
    def reset(state, params):
        state.place = math.nan if params.harm == 4 else uniform(state, -1.0, 1.0)

    @staticmethod
    def step(state, action, params):
        state.place += 0.1
        if state.steps + 1 == params.at and params.harm == 3:
            return math.inf, False
        return 1.0, False

    @staticmethod
    def observe(state, out, params):
        out[0] = state.place
        out[1] = 0.0
        out[2] = 0.0
        if state.steps == params.at:
            if params.harm == 1:
                out[1] = math.nan
            if params.harm == 2:
                out[2] = 101.0
