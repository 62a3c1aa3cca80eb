"""A world with mixed actions, as a user would write one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Throw(gym.Env):
    """Name the arm that is seen, and throw with the force that belongs to it; `info` forbids one of the other arms."""

    observation_space = spaces.Box(0, 1, (3,), np.float32)
    action_space = spaces.Dict({"arm": spaces.Discrete(3, start=1), "throw": spaces.Tuple((spaces.Box(-2, 2, (1,)),))})
    render_mode = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return self._next()

    def step(self, action: dict[str, Any]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        assert self.mask[action["arm"] - 1], "a forbidden arm"
        reward = float(action["arm"] == self.target + 1) - abs(float(action["throw"][0][0]) - (self.target - 1))
        self.count += 1
        seen, info = self._next()
        return seen, reward, False, self.count == 5, info

    def _next(self) -> tuple[Any, dict[str, Any]]:
        self.target = int(self.np_random.integers(3))
        self.mask = np.arange(3) != (self.target + 1) % 3
        return np.eye(3, dtype=np.float32)[self.target], {"action_mask": {"arm": self.mask.astype(np.int8)}}
