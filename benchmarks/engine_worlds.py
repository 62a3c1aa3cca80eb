"""Envs with a known cost."""

from __future__ import annotations

import time

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Busy(gym.Env):
    """Burns CPU time in each step: its own, so that a process which is not running burns nothing."""

    observation_space = spaces.Box(-1, 1, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, seconds: float = 1e-4) -> None:
        self.seconds, self.observation = seconds, np.zeros(4, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation, {}

    def step(self, action):
        until = time.thread_time() + self.seconds
        while time.thread_time() < until:
            pass
        return self.observation, 0.0, False, False, {}


class Slow(Busy):
    """The same, in episodes, for what trains on it."""

    def __init__(self, seconds: float = 1e-3, episode_length: int = 100) -> None:
        super().__init__(seconds)
        self.episode_length, self.steps = episode_length, 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        self.steps += 1
        return observation, reward, terminated, self.steps >= self.episode_length, info


class SlowControl(Slow):
    """The same with continuous actions."""

    observation_space = spaces.Box(-1, 1, (17,), np.float32)
    action_space = spaces.Box(-1, 1, (6,), np.float32)

    def __init__(self, seconds: float = 1e-3, episode_length: int = 100) -> None:
        super().__init__(seconds, episode_length)
        self.observation = np.zeros(17, np.float32)


class Waiting(Busy):
    """Waits instead, as an env does that talks to a device or a server."""

    def step(self, action):
        time.sleep(self.seconds)
        return self.observation, 0.0, False, False, {}


class Frames(gym.Env):
    """84x84x4 bytes per observation, at no other cost."""

    observation_space = spaces.Box(0, 255, (84, 84, 4), np.uint8)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.frame = np.zeros((84, 84, 4), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.frame, {}

    def step(self, action):
        self.frame[0, 0, 0] ^= 1
        return self.frame, 0.0, False, False, {}
