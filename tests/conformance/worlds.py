"""Small envs that show one property each."""

from __future__ import annotations

import random
from copy import deepcopy

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rookery.kernel.random import uniform
from rookery.kernel.world import KernelWorld

SPACES = {
    "box": spaces.Box(-1, 1, (3,), np.float32),
    "box-scalar": spaces.Box(-1, 1, (), np.float64),
    "box-float16": spaces.Box(-1, 1, (2, 2), np.float16),
    "box-image": spaces.Box(0, 255, (5, 4, 3), np.uint8),
    "box-bool": spaces.Box(0, 1, (4,), np.bool_),
    "box-int": spaces.Box(-5, 5, (2,), np.int32),
    "discrete": spaces.Discrete(4),
    "discrete-start": spaces.Discrete(3, start=-1),
    "multi-binary": spaces.MultiBinary((2, 3)),
    "multi-discrete": spaces.MultiDiscrete([3, 4, 2]),
    "dict": spaces.Dict({"b": spaces.Box(0, 1, (2,), np.float32), "a": spaces.Discrete(3)}),
    "tuple": spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (3,), np.float64))),
    "nested": spaces.Dict(
        {"x": spaces.Tuple((spaces.MultiBinary(3), spaces.Dict({"y": spaces.Box(0, 9, (2, 1), np.int64)})))}
    ),
    "text": spaces.Text(8),
    "graph": spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(3)),
    "sequence": spaces.Sequence(spaces.Discrete(5)),
    "dict-with-text": spaces.Dict({"t": spaces.Text(5), "v": spaces.Box(-1, 1, (2,), np.float32)}),
}


class Sampler(gym.Env):
    """Observations are samples of one space; `info` and `last_action` tell what action came in."""

    def __init__(self, observation: str = "box", action: str = "discrete", length: int = 5) -> None:
        self.observation_space, self.action_space = deepcopy(SPACES[observation]), deepcopy(SPACES[action])
        self.length, self.t, self.last_action = length, 0, None

    def _sample(self):
        space = self.observation_space
        space.seed(int(self.np_random.integers(2**31)))
        return space.sample()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._sample(), {}

    def step(self, action):
        assert self.action_space.contains(np.asarray(action) if isinstance(action, np.floating) else action), action
        self.t, self.last_action = self.t + 1, action
        return self._sample(), float(self.t), self.t >= self.length, False, {}


class Counter(gym.Env):
    """Counts its steps in one buffer that it hands out again and again, as many fast envs do."""

    observation_space = spaces.Box(-1000, 1000, (2,), np.float32)
    action_space = spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"]}
    render_mode = "rgb_array"

    def __init__(self, length: int = 4, start: float = 0.0) -> None:
        self.length, self.start, self.scale = length, start, 1.0
        self.buffer, self.info = np.zeros(2, np.float32), {"steps": np.zeros(1, np.int64)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.buffer[:] = self.start, self.np_random.random()
        self.info["steps"][:] = 0
        return self.buffer, self.info

    def step(self, action):
        self.t += 1
        self.buffer[0] += self.scale
        self.info["steps"][:] = self.t
        return self.buffer, float(action), self.t == self.length, False, self.info

    def render(self):
        return np.full((2, 2, 3), self.t, np.uint8)

    def double(self, x, plus=0):
        return 2 * x + plus


class CounterWorld(KernelWorld):
    """`Counter` as a kernel world."""

    observation_space = Counter.observation_space
    action_space = Counter.action_space
    state = {"count": "f8", "drawn": "f8"}
    parameters = {"length": 4, "start": 0.0, "scale": 1.0}
    info = {"steps": "(1,)i8"}

    @staticmethod
    def reset(state, params):
        state.count = params.start
        state.drawn = uniform(state, 0.0, 1.0)

    @staticmethod
    def step(state, action, params, info):
        state.count += params.scale
        info.steps[0] = state.steps + 1
        return float(action), state.steps + 1 == params.length

    @staticmethod
    def observe(state, out):
        out[0] = state.count
        out[1] = state.drawn


class Informer(gym.Env):
    """Infos of every kind: numbers, arrays, nested dicts, strings, objects; some keys only now and then."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {"begun": True, "option": (options or {}).get("level", -1)}

    def step(self, action):
        self.t += 1
        info = {"t": self.t, "half": self.t / 2, "even": self.t % 2 == 0, "f32": np.float32(self.t)}
        info["array"] = np.arange(3) * self.t
        info["nested"] = {"t": self.t, "word": f"step {self.t}"}
        if (self.t + action) % 3 == 0:
            info |= {"rare": self.t, "object": {1, 2}, "text": "now"}
        return np.zeros(1, np.float32), 0.0, False, self.t >= 7, info


class GlobalDice(gym.Env):
    """Draws from the process's global generators, as old code does."""

    observation_space = spaces.Box(0, 1, (2,), np.float64)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self._draw(), {}

    def step(self, action):
        return self._draw(), random.random(), random.random() < 0.1, False, {}

    def _draw(self):
        return np.array([random.random(), np.random.rand()])


class WithState(gym.Env):
    """Gives its state out itself, and cannot be pickled."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.unpicklable = (i for i in range(3))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0.0
        return np.array([self.x]), {}

    def step(self, action):
        self.x += self.np_random.normal() + action
        return np.array([self.x]), self.x, False, False, {}

    def get_state(self):
        return {"x": self.x}

    def set_state(self, state):
        self.x = state["x"]
