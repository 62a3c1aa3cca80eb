"""Runs with hindsight: the world's own rewards of goals, of kernel worlds and of Gymnasium's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rookery
from rookery.errors import OptionError
from rookery.kernel.random import uniform
from rookery.kernel.world import KernelWorld

PLACE = spaces.Box(-2, 2, (1,), np.float32)
SEEN = spaces.Dict(observation=PLACE, achieved_goal=PLACE, desired_goal=PLACE)
SMALL = {"hindsight": 4, "hidden": [16], "batch_size": 16, "start_steps": 40, "updates_per_step": 0.25}


def reward(achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
    return -(np.abs(achieved_goal - desired_goal)[..., 0] > 0.1).astype(np.float64)


class Reach(KernelWorld):
    """Go to a place on a line."""

    observation_space, action_space = SEEN, spaces.Box(-1, 1, (1,), np.float32)
    state = {"place": "f4", "goal": "f4"}
    time_limit = 10
    compute_reward = staticmethod(reward)

    @staticmethod
    def reset(state: Any) -> None:
        state.goal = uniform(state, -1.0, 1.0)

    @staticmethod
    def step(state: Any, action: Any) -> tuple[float, bool]:
        state.place += 0.2 * action[0]
        return (-1.0 if abs(state.place - state.goal) > 0.1 else 0.0), False

    @staticmethod
    def observe(state: Any, out: Any) -> None:
        out.observation[0], out.achieved_goal[0], out.desired_goal[0] = state.place, state.place, state.goal


class Robot(gym.Env):
    """The same as Gymnasium-Robotics has it."""

    observation_space, action_space = SEEN, Reach.action_space

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return reward(achieved_goal, desired_goal, info)

    def _seen(self) -> dict[str, np.ndarray]:
        return {"observation": self.place, "achieved_goal": self.place, "desired_goal": self.goal}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps = np.zeros(1, np.float32), 0
        self.goal = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place, self.steps = np.clip(self.place + np.float32(0.2) * action, -2, 2), self.steps + 1
        return self._seen(), float(reward(self.place, self.goal, {})), False, self.steps >= 10, {}


@pytest.mark.few(1)
@pytest.mark.usefixtures("plain_python")
@pytest.mark.parametrize("world", [Reach, Robot], ids=["kernel", "Gymnasium"])
def test_copies_come_into_replay(world: type, tmp_path: Path) -> None:
    """Four for each transition of complete episodes, many of which reach their goal."""
    found: dict[str, Any] = {}

    class Look(rookery.Callback):
        def on_update(self, run: Any, metrics: Any) -> None:
            found.update(run.learner.replay.state())

    rookery.train(
        world, learner="sac", num_envs=2, steps=120, sac=SMALL, runs_dir=tmp_path, callbacks=[Look()], verbose=False,
        backend="kernel" if world is Reach else "serial", evaluation={"every": 10**6, "episodes": 2},
    )  # fmt: skip
    rewards = found["arrays"]["outcomes"][:, 0]
    assert found["size"] > 400
    assert 0.1 < (rewards == 0).mean() < 0.9


@pytest.mark.usefixtures("plain_python")
def test_a_world_without_rewards_of_goals_is_refused(tmp_path: Path) -> None:
    class Mute(Reach):
        compute_reward = None

    with pytest.raises(OptionError, match="compute_reward"):
        rookery.train(Mute, learner="sac", num_envs=2, steps=100, sac=SMALL, runs_dir=tmp_path, verbose=False)
