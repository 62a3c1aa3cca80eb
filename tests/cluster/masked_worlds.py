"""Envs that allow other actions in every step."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Masked(gym.Env):
    """Random vectors; the mask is in the info. Its reward is large where the action is the largest entry."""

    observation_space: gym.Space = gym.spaces.Box(-10, 10, (9,), np.float32)
    action_space: gym.Space = gym.spaces.Discrete(5, start=2)
    choices = 5

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self.shown()

    def shown(self) -> tuple[Any, dict[str, Any]]:
        self.seen = self.np_random.normal(size=9).astype(np.float32)
        self.mask = (self.np_random.random(self.choices) < 0.5).astype(np.int8)
        self.mask[[0, -1]] = 1
        return self.seen, {"action_mask": self.mask}

    def chosen(self, action: Any) -> np.ndarray:
        return np.array([int(action) - 2])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        chosen = self.chosen(action)
        assert self.mask[chosen].all(), f"{action} is not allowed"
        reward = float(self.seen[chosen].sum())
        self.t += 1
        observation, info = self.shown()
        return observation, reward, reward > 2.0, self.t == 30, info


class MaskedChoices(Masked):
    """Two choices at once, and the mask in the observation."""

    observation_space = gym.spaces.Dict(
        {"seen": gym.spaces.Box(-10, 10, (9,), np.float32), "action_mask": gym.spaces.MultiBinary(5)}
    )
    action_space = gym.spaces.MultiDiscrete([3, 2])

    def shown(self) -> tuple[Any, dict[str, Any]]:
        seen, info = super().shown()
        return {"seen": seen, **info}, {}

    def chosen(self, action: Any) -> np.ndarray:
        return np.array([action[0], 3 + action[1]])
