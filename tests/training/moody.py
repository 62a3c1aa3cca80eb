"""Envs that fail now and then, and do not always say how an episode ended."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

END = 100.0  # the last reward of an episode that did not fail


class Moody(gym.Env):
    """Episodes of 1 to 8 steps. Those of 3 and 6 steps say at their end how long they were, others end with `{}`. Some
    fail, in any step."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    failure_rate = 0.05

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.t, self.length = 0, int(self.np_random.integers(1, 9))
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        if self.np_random.random() < self.failure_rate:
            raise RuntimeError("out of fuel")
        self.t += 1
        over = self.t >= self.length
        info = {"mine": self.t, "name": f"of {self.t}"} if over and self.t % 3 == 0 else {}
        return np.zeros(2, np.float32), END if over else 1.0, over, False, info


class Steady(Moody):
    """It never fails."""

    failure_rate = 0.0


def wrong_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of episodes of these envs whose infos are not their own."""
    return [
        row for row in rows if {name: row[name] for name in ("mine", "name", "restarted") if name in row} != _of(row)
    ]


def _of(row: dict[str, Any]) -> dict[str, Any]:
    length = row["length"]
    if row["return"] < END:
        return {"restarted": True}
    return {"mine": length, "name": f"of {length}"} if length % 3 == 0 else {}
