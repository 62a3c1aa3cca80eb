"""Worlds to be shown, or not."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rookery.kernel.world import KernelWorld


class Corridor(gym.Env):
    """Six steps through a Dict of observations, with a mask in the infos that forbids one action of three."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = spaces.Dict(place=spaces.Discrete(9), wind=spaces.Box(-1, 1, (2,), np.float64))
    action_space = spaces.Discrete(3)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), self._told()

    def step(self, action):
        assert action != self.forbidden
        self.steps += 1
        return self._seen(), 1.0, self.steps == 6, False, self._told() | {"is_success": self.steps == 6}

    def render(self):
        return np.full((3, 4), 20 * self.steps, np.uint8)

    def _seen(self):
        return {"place": self.steps, "wind": self.np_random.uniform(-1, 1, 2)}

    def _told(self):
        self.forbidden = self.steps % 3
        return {"action_mask": (np.arange(3) != self.forbidden).astype(np.int8)}


class Endless(gym.Env):
    """Knows nothing of render modes, and draws all the same: pictures with odd sides. It never ends."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert action in self.action_space
        return np.zeros(2, np.float32), 0.5, False, False, {}

    def render(self):
        return np.zeros((201, 303, 4), np.uint8)


class Unseen(Endless):
    """Draws nothing."""

    def render(self):
        return None


class Broken(Endless):
    """Fails when it should draw."""

    def render(self):
        raise OSError("no OpenGL")


class Touchy(Endless):
    """Refuses to be shown in words of its own."""

    def __init__(self, render_mode=None):
        if render_mode is not None:
            raise ValueError("the camera is broken")


class Dark(KernelWorld):
    """A kernel world without pictures."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)
    time_limit = 4

    @staticmethod
    def reset(state):
        pass

    @staticmethod
    def step(state, action):
        return 1.0, False

    @staticmethod
    def observe(state, out):
        out[0] = 0.5
