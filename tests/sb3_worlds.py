"""Envs for the tests with Stable-Baselines3, in a file that workers can import without it and torch."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Counter(gym.Env):
    """Counts to `limit`; odd seeds end terminated, even ones truncated. `reuse` hands out the same objects again."""

    observation_space = spaces.Dict(
        {"n": spaces.Box(0, 99, (2,), np.float32), "seed": spaces.Box(0, 2**31, (1,), np.int64)}
    )
    action_space = spaces.Discrete(3)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}

    def __init__(self, limit=4, render_mode=None, reuse=False):
        self.limit, self.render_mode, self.reuse = limit, render_mode, reuse
        self.tag, self.resets, self.last_options, self.first_seed = "plain", 0, None, 0
        self._buffer, self._info = np.zeros(2, np.float32), {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.first_seed = seed
        self.resets += 1
        self.last_options, self.count = options, 0
        self._buffer[:] = 0
        return self._observation(), {"fresh": self.resets}

    def step(self, action):
        self.count += 1
        self._buffer += 1 + int(action)
        over = self.count == self.limit
        self._info.clear()
        self._info |= {"count": self.count, "deep": {"twice": 2 * self.count, "word": "w" * self.count}}
        if self.count % 2:
            self._info["odd"] = np.arange(self.count % 3 + 1) if over else np.arange(2)
        odd_seed = self.first_seed % 2 == 1
        return self._observation(), self.np_random.random() + self.count, over and odd_seed, over, self._info

    def _observation(self):
        return {"n": self._buffer if self.reuse else self._buffer.copy(), "seed": np.array([self.first_seed])}

    def double(self, value, *, plus=0):
        return 2 * value + plus

    def render(self):
        return np.full((4, 4, 3), self.count, np.uint8)


class Switches(gym.Env):
    """A world with MultiBinary actions that insists on getting integers."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.MultiBinary(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert action.dtype == np.int8
        return self.observation_space.sample(), 1.0, bool(self.np_random.random() < 0.1), False, {}


class Pixels(gym.Env):
    """Images in HWC order, which SB3 transposes, terminal ones too."""

    observation_space = spaces.Box(0, 255, (36, 36, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros((36, 36, 3), np.uint8), {}

    def step(self, action):
        self.count += 1
        return np.full((36, 36, 3), self.count, np.uint8), 1.0, False, self.count == 7, {}


class Fragile(Counter):
    """Breaks in its third step."""

    def step(self, action):
        if self.count == 2:
            raise RuntimeError("snapped")
        return super().step(action)


HYBRID = spaces.Dict(
    {
        "choice": spaces.Discrete(3, start=1),
        "force": spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32)),
        "more": spaces.Tuple((spaces.MultiBinary(2), spaces.MultiDiscrete([[2, 3]], start=[[0, 5]]))),
    }
)


class Acting(gym.Env):
    """Insists on actions of `space`, and returns the sum of all their numbers as the reward."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, space=HYBRID):
        self.action_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.count += 1
        total = float(spaces.flatten(_unbounded(self.action_space), action).sum())
        return np.zeros(2, np.float32), total, False, self.count == 8, {"total": total}


def _unbounded(space):
    """The same nesting, of plain boxes: `flatten` then gives the numbers themselves."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: _unbounded(part) for key, part in space.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([_unbounded(part) for part in space.spaces])
    return spaces.Box(-np.inf, np.inf, space.shape or (1,))
