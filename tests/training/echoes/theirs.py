"""A game for two in the manner of the original hockey env: the other's view is told by a method."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rookery.worlds.foreign_games import BothViews


class Race(gym.Env):
    """Whoever has done more after ten steps wins."""

    observation_space = spaces.Box(-20, 20, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.places, self.steps = np.zeros(2, np.float32), 0
        return self.places.copy(), {}

    def step(self, action):
        self.places += np.asarray(action, np.float32)
        self.steps += 1
        over = self.steps == 10
        winner = int(np.sign(self.places[0] - self.places[1])) if over else 0
        return self.places.copy(), float(winner), over, False, {"winner": winner}

    def obs_agent_two(self):
        return self.places[::-1].copy()


def make() -> gym.Env:
    return BothViews(Race())


def make_bare() -> gym.Env:
    return Race()
