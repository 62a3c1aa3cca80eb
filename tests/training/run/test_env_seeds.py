"""The envs of a run are seeded with children of the run's seed: runs with close seeds share no env."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import rookery
from rookery.engine.seeding import child_seed
from training.runs import small

SEEN: list[int | None] = []


class SeedEcho(gym.Env):
    """Notes each seed that it is reset with."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        SEEN.append(seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.t += 1
        return np.zeros(1, np.float32), 0.0, False, self.t == 8, {}


def test_a_run_gives_its_envs_children_of_its_seed(tmp_path: Path) -> None:
    """Not seed + i, which a run with the next seed would give to its own envs as well."""
    SEEN.clear()
    config = small("ppo", tmp_path, num_envs=3, backend="serial", steps=48)
    rookery.train(SeedEcho, **{key: value for key, value in config.items() if key != "world"})
    assert [seed for seed in SEEN if seed is not None][:3] == [child_seed(5, i) for i in range(3)]


class Leaver(SeedEcho):
    """Leaves its observation space in every step."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        observation, *rest = super().step(action)
        return observation + 2, *rest  # type: ignore[return-value]


def test_a_run_says_once_that_observations_leave_their_space(tmp_path: Path) -> None:
    """As a warning among its events."""
    config = small("ppo", tmp_path, num_envs=3, backend="serial", steps=48)
    result = rookery.train(Leaver, **{key: value for key, value in config.items() if key != "world"})
    events = [json.loads(line) for line in (result.path / "metrics.jsonl").read_text().splitlines()]
    notes = [event for event in events if event["kind"] == "note" and "outside its space" in event.get("text", "")]
    assert [note["warning"] for note in notes] == [True]
