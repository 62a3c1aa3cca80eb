"""A kernel world with info columns: bets on a drifting coin, until the purse is empty."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery.kernel.random import uniform
from rookery.kernel.world import KernelWorld


class Purse(KernelWorld):
    """Action 1 bets. Episodes terminate at random, or are truncated."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(2)
    state = {"purse": "f8", "bets": "i8"}
    info = {"purse": "f8", "bets": "i8", "ratio": "f8", "history": ("f4", (2,))}
    time_limit = 20

    @staticmethod
    def reset(state):
        state.purse = 10.0

    @staticmethod
    def step(state, action, info):
        change = action * uniform(state, -1.0, 2.0)
        state.purse += change
        state.bets += action
        info.purse, info.bets, info.ratio = state.purse, state.bets, np.nan
        return change, uniform(state, 0.0, 1.0) < 0.05

    @staticmethod
    def observe(state, out):
        out[0], out[1] = state.purse, state.bets
