"""Kernel worlds whose observations are dicts."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery.kernel.random import integer, uniform
from rookery.kernel.world import KernelWorld


class Sailor(KernelWorld):
    """A boat on a line: every kind of part in one observation."""

    observation_space = spaces.Dict(
        {
            "position": spaces.Box(-50.0, 50.0, (2,), np.float32),
            "chart": spaces.Box(0, 255, (2, 3), np.uint8),
            "sail": spaces.Discrete(3, start=1),
            "flags": spaces.MultiBinary(2),
            "crew": spaces.MultiDiscrete([3, 4]),
            "wind": spaces.Box(-100.0, 100.0, (), np.float64),
        }
    )
    action_space = spaces.Discrete(3)
    state = {"x": "f8", "sail": "i8"}
    parameters = {"gust": 0.0}
    info = {"x": "f8"}
    time_limit = 6

    @staticmethod
    def reset(state):
        state.x = uniform(state, -1.0, 1.0)
        state.sail = integer(state, 1, 4)

    @staticmethod
    def step(state, action, params, info):
        state.sail = action + 1
        state.x += action - 1 + params.gust
        info.x = state.x
        return state.x, abs(state.x) > 3.0

    @staticmethod
    def observe(state, out):
        out.position[0], out.position[1] = state.x, -state.x
        for row in range(2):
            for column in range(3):
                out.chart[row, column] = 10 * row + column + state.steps
        out.sail = state.sail
        out.flags[0], out.flags[1] = state.x > 0, state.x < 0
        out.crew[0], out.crew[1] = state.sail - 1, state.steps % 4
        out.wind = 2.0 * state.x


class Regatta(Sailor):
    """Two boats."""

    num_agents = 2

    @staticmethod
    def step(state, action, rewards):
        state.x += action[0] - action[1]
        rewards[0], rewards[1] = state.x, -state.x
        return abs(state.x) > 3.0

    @staticmethod
    def observe(state, out, agent):
        sign = 1 - 2 * agent
        out.position[0], out.position[1] = sign * state.x, -sign * state.x
        out.sail = state.sail
        out.wind = agent
