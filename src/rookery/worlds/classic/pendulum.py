"""Pendulum: a rod on a hinge with a motor too weak to lift it in one go."""

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.kernel.random import uniform
from rookery.kernel.world import KernelWorld
from rookery.worlds.classic.angles import wrapped

TIME_STEP = 0.05
TOP_SPIN = 8.0
TOP_TORQUE = 2.0
LIMITS = np.array([1.0, 1.0, TOP_SPIN], np.float32)


class Pendulum(KernelWorld):
    """Swing the rod up and keep it there. An angle of 0 is upright; the observation is its cosine, sine and spin."""

    observation_space = spaces.Box(-LIMITS, LIMITS, dtype=np.float32)
    action_space = spaces.Box(-TOP_TORQUE, TOP_TORQUE, (1,), np.float32)
    state = {"angle": "f8", "spin": "f8"}
    parameters = {"gravity": 10.0, "mass": 1.0, "length": 1.0}
    time_limit = 200
    clips_actions = True

    @staticmethod
    def reset(state: Any) -> None:
        state.angle = uniform(state, -math.pi, math.pi)
        state.spin = uniform(state, -1.0, 1.0)

    @staticmethod
    def step(state: Any, action: Any, params: Any) -> Any:
        torque = min(max(action[0], -TOP_TORQUE), TOP_TORQUE)
        lean = wrapped(state.angle)
        cost = lean * lean + 0.1 * state.spin * state.spin + 0.001 * torque * torque
        fall = 1.5 * params.gravity / params.length * math.sin(state.angle)
        lift = np.float32(3.0 / (params.mass * params.length * params.length) * torque)  # single, as in the original
        spin = state.spin + TIME_STEP * (fall + float(lift))
        state.spin = min(max(spin, -TOP_SPIN), TOP_SPIN)
        state.angle += TIME_STEP * state.spin
        return -cost, False

    @staticmethod
    def observe(state: Any, out: Any) -> None:
        out[0] = math.cos(state.angle)
        out[1] = math.sin(state.angle)
        out[2] = state.spin
