"""Vector envs as other libraries make them: of NumPy arrays, which do not say how their envs are made."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

LENGTH = 5


class Counters(VectorEnv):
    """An env counts its steps up to 5, and is then truncated; the reward is 1 for action 1. Rows begin at their own
    number, so that it is seen whose final observation is whose."""

    single_observation_space = gym.spaces.Box(-1, 100, (2,), np.float32)
    single_action_space = gym.spaces.Discrete(2)
    mode = AutoresetMode.SAME_STEP

    def __init__(self, num_envs: int = 3) -> None:
        self.num_envs, self.metadata = num_envs, {"autoreset_mode": self.mode}
        self.count = np.zeros(num_envs, int)
        self.seen_actions: Any = None

    def reset(self, *, seed: Any = None, options: Any = None):
        mask = np.ones(self.num_envs, bool) if options is None else options["reset_mask"]
        assert isinstance(mask, np.ndarray)
        self.count[mask] = -np.arange(self.num_envs)[mask]  # rows end at different steps
        return self._observe(), {}

    def step(self, actions: np.ndarray):
        assert isinstance(actions, np.ndarray) and actions.dtype == np.int64
        ended_before = self.count >= LENGTH
        self.count += 1
        infos: dict[str, Any] = {}
        if self.mode is AutoresetMode.NEXT_STEP:
            self.count[ended_before] = 0
        ended = self.count >= LENGTH
        if self.mode is AutoresetMode.SAME_STEP and ended.any():
            finals = np.full(self.num_envs, None, object)
            for row in np.flatnonzero(ended):
                finals[row] = self._observe()[row]
            infos = {"final_obs": finals, "_final_obs": ended}
            self.count[ended] = 0
        return self._observe(), (actions == 1).astype(float), np.zeros(self.num_envs, bool), ended, infos

    def _observe(self) -> np.ndarray:
        return np.stack([self.count, np.arange(self.num_envs)], 1).astype(np.float32)


class NextStepCounters(Counters):
    mode = AutoresetMode.NEXT_STEP


class DisabledCounters(Counters):
    mode = AutoresetMode.DISABLED


class PoolSpec:
    """Not Gymnasium's EnvSpec."""


class FakePool(NextStepCounters):
    """The interface of EnvPool's Gymnasium envs: its spaces are those of one env, a seed is ignored with a warning."""

    def __init__(self, num_envs: int = 3) -> None:
        super().__init__(num_envs)
        self.config, self.spec = {"num_envs": num_envs, "seed": 1}, PoolSpec()
        self.all_env_ids = np.arange(num_envs)
        self.observation_space, self.action_space = self.single_observation_space, self.single_action_space

    def reset(self, env_id: Any = None, *, seed: Any = None, options: Any = None):
        if seed is not None:
            warnings.warn("EnvPool seeds are fixed when the environment is created")
        observations, _ = super().reset(options=options)
        return observations, {"env_id": self.all_env_ids, "players": {"env_id": self.all_env_ids}}
