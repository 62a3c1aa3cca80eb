"""CartPole: a cart on a rail, with a pole standing on it."""

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.kernel.random import uniform
from rookery.kernel.world import KernelWorld
from rookery.worlds.classic.angles import sine_and_cosine

TIME_STEP = 0.02
RAIL = 2.4  # the cart may roll this far from the middle
LEAN = math.radians(12)  # the pole may lean this far
# The bounds are twice as wide, so that the last observation of an episode is inside them.
LIMITS = np.array([2 * RAIL, np.inf, 2 * LEAN, np.inf], np.float32)


class CartPole(KernelWorld):
    """Keep the pole upright by pushing the cart to the left (0) or to the right (1).

    Every step is rewarded with 1; with `sutton_barto_reward`, with 0, and with -1 when the pole falls.
    """

    observation_space = spaces.Box(-LIMITS, LIMITS, dtype=np.float32)
    action_space = spaces.Discrete(2)
    state = {"x": "f8", "velocity": "f8", "angle": "f8", "spin": "f8"}
    parameters = {
        "gravity": 9.8, "cart_mass": 1.0, "pole_mass": 0.1, "half_length": 0.5, "force": 10.0,
        "sutton_barto_reward": False,
    }  # fmt: skip
    time_limit = 500

    @staticmethod
    def reset(state: Any) -> None:
        state.x = uniform(state, -0.05, 0.05)
        state.velocity = uniform(state, -0.05, 0.05)
        state.angle = uniform(state, -0.05, 0.05)
        state.spin = uniform(state, -0.05, 0.05)

    @staticmethod
    def step(state: Any, action: Any, params: Any) -> Any:
        force = params.force * (2 * action - 1)  # not `if`: half of the guesses about a random action are wrong
        sine, cosine = sine_and_cosine(state.angle)
        per_mass = 1.0 / (params.cart_mass + params.pole_mass)  # two divisions, and neither waits for what comes after
        per_inertia = 1.0 / (params.half_length * (4.0 / 3.0 - params.pole_mass * per_mass * cosine * cosine))
        lever = params.pole_mass * params.half_length * per_mass
        push = force * per_mass + lever * state.spin * state.spin * sine
        turn = (params.gravity * sine - cosine * push) * per_inertia
        state.x += TIME_STEP * state.velocity
        state.velocity += TIME_STEP * (push - lever * turn * cosine)
        state.angle += TIME_STEP * state.spin
        state.spin += TIME_STEP * turn
        fallen = abs(state.x) > RAIL or abs(state.angle) > LEAN
        if params.sutton_barto_reward:
            return -1.0 if fallen else 0.0, fallen
        return 1.0, fallen

    @staticmethod
    def observe(state: Any, out: Any) -> None:
        out[0] = state.x
        out[1] = state.velocity
        out[2] = state.angle
        out[3] = state.spin
