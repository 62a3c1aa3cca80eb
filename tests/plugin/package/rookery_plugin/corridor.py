"""The world: a corridor with a reward at its end."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Corridor(gym.Env):
    """Walk right to get there; an episode is cut after 50 steps."""

    def __init__(self, width=8):
        self.width = width
        self.observation_space = spaces.Box(0, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = 0, 0
        return self._observation(), {}

    def step(self, action):
        self.place = max(0, self.place + (1 if action == 1 else -1))
        self.steps += 1
        arrived = self.place >= self.width
        return self._observation(), float(arrived), arrived, self.steps >= 50, {}

    def _observation(self):
        return np.array([min(1.0, self.place / self.width)], np.float32)
