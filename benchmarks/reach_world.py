"""A kernel world with goals, in the form of Gymnasium-Robotics: move a point in space to where the goal is."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from rookery import KernelWorld
from rookery.kernel import uniform

NEAR = 0.05  # a goal is reached within this distance
STEP = 0.1  # the longest step in each direction
_PLACE = spaces.Box(-2, 2, (3,), np.float32)


class Reach(KernelWorld):
    """A reward of -1 a step, and 0 where the goal is reached."""

    observation_space = spaces.Dict(observation=_PLACE, achieved_goal=_PLACE, desired_goal=_PLACE)
    action_space = spaces.Box(-1, 1, (3,), np.float32)
    state = {"place": (np.float32, 3), "goal": (np.float32, 3)}
    time_limit = 50

    @staticmethod
    def reset(state: Any) -> None:
        for axis in range(3):
            state.place[axis] = uniform(state, -1.0, 1.0)
            state.goal[axis] = uniform(state, -1.0, 1.0)

    @staticmethod
    def step(state: Any, action: Any) -> tuple[float, bool]:
        distance = 0.0
        for axis in range(3):
            state.place[axis] = min(2.0, max(-2.0, state.place[axis] + STEP * action[axis]))
            distance += (state.place[axis] - state.goal[axis]) ** 2
        return (0.0 if distance <= NEAR**2 else -1.0), False

    @staticmethod
    def observe(state: Any, out: Any) -> None:
        for axis in range(3):
            out.observation[axis] = state.place[axis]
            out.achieved_goal[axis] = state.place[axis]
            out.desired_goal[axis] = state.goal[axis]

    @staticmethod
    def compute_reward(achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """Of many steps at once, for hindsight."""
        distances = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
        return np.where(distances <= NEAR, 0.0, -1.0)
