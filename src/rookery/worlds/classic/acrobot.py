"""Acrobot: two rods in a chain, hanging from a bar, with a motor in the joint between them."""

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.kernel.random import uniform
from rookery.kernel.world import KernelWorld
from rookery.worlds.classic.angles import wrapped

TIME_STEP = 0.2
TOP_SPIN_1, TOP_SPIN_2 = 4.0 * math.pi, 9.0 * math.pi
LIMITS = np.array([1.0, 1.0, 1.0, 1.0, TOP_SPIN_1, TOP_SPIN_2], np.float32)


def accelerations(angle_1: float, angle_2: float, spin_1: float, spin_2: float, torque: float, params: Any) -> Any:
    """How fast the spins of both rods change: the equations of motion in Sutton and Barto's book."""
    cosine, sine = math.cos(angle_2), math.sin(angle_2)
    far, centre = params.length_1, params.centre_2  # from bar to joint, from joint to the second rod's centre
    coupling = params.mass_2 * far * centre
    inertia_2 = params.mass_2 * centre * centre + params.inertia
    shared = inertia_2 + coupling * cosine
    whole = (
        params.mass_1 * params.centre_1 * params.centre_1
        + params.mass_2 * (far * far + centre * centre + 2.0 * far * centre * cosine)
        + 2.0 * params.inertia
    )
    weight_2 = params.mass_2 * centre * params.gravity * math.sin(angle_1 + angle_2)
    weight_1 = (params.mass_1 * params.centre_1 + params.mass_2 * far) * params.gravity * math.sin(angle_1)
    swing = weight_1 + weight_2 - coupling * sine * spin_2 * (spin_2 + 2.0 * spin_1)
    share = shared / whole
    second = (torque + share * swing - coupling * spin_1 * spin_1 * sine - weight_2) / (inertia_2 - share * shared)
    return -(shared * second + swing) / whole, second


class Acrobot(KernelWorld):
    """Swing the free end up, one rod's length above the bar. Actions push the joint left, not at all, or right; every
    step costs 1 until the end is up."""

    observation_space = spaces.Box(-LIMITS, LIMITS, dtype=np.float32)
    action_space = spaces.Discrete(3)
    state = {"angle_1": "f8", "angle_2": "f8", "spin_1": "f8", "spin_2": "f8"}
    parameters = {
        "gravity": 9.8, "torque": 1.0, "mass_1": 1.0, "mass_2": 1.0, "length_1": 1.0, "centre_1": 0.5, "centre_2": 0.5,
        "inertia": 1.0,
    }  # fmt: skip
    time_limit = 500

    @staticmethod
    def reset(state: Any) -> None:
        state.angle_1 = uniform(state, -0.1, 0.1)
        state.angle_2 = uniform(state, -0.1, 0.1)
        state.spin_1 = uniform(state, -0.1, 0.1)
        state.spin_2 = uniform(state, -0.1, 0.1)

    @staticmethod
    def step(state: Any, action: Any, params: Any) -> Any:
        torque = (action - 1) * params.torque
        a, b, u, v = state.angle_1, state.angle_2, state.spin_1, state.spin_2
        h = 0.5 * TIME_STEP  # Runge and Kutta's method of fourth order
        du1, dv1 = accelerations(a, b, u, v, torque, params)
        u2, v2 = u + h * du1, v + h * dv1
        du2, dv2 = accelerations(a + h * u, b + h * v, u2, v2, torque, params)
        u3, v3 = u + h * du2, v + h * dv2
        du3, dv3 = accelerations(a + h * u2, b + h * v2, u3, v3, torque, params)
        u4, v4 = u + TIME_STEP * du3, v + TIME_STEP * dv3
        du4, dv4 = accelerations(a + TIME_STEP * u3, b + TIME_STEP * v3, u4, v4, torque, params)
        sixth = TIME_STEP / 6.0
        state.angle_1 = wrapped(a + sixth * (u + 2.0 * u2 + 2.0 * u3 + u4))
        state.angle_2 = wrapped(b + sixth * (v + 2.0 * v2 + 2.0 * v3 + v4))
        spin_1 = u + sixth * (du1 + 2.0 * du2 + 2.0 * du3 + du4)
        spin_2 = v + sixth * (dv1 + 2.0 * dv2 + 2.0 * dv3 + dv4)
        state.spin_1 = min(max(spin_1, -TOP_SPIN_1), TOP_SPIN_1)
        state.spin_2 = min(max(spin_2, -TOP_SPIN_2), TOP_SPIN_2)
        up = -math.cos(state.angle_1) - math.cos(state.angle_1 + state.angle_2) > 1.0
        return 0.0 if up else -1.0, up

    @staticmethod
    def observe(state: Any, out: Any) -> None:
        out[0] = math.cos(state.angle_1)
        out[1] = math.sin(state.angle_1)
        out[2] = math.cos(state.angle_2)
        out[3] = math.sin(state.angle_2)
        out[4] = state.spin_1
        out[5] = state.spin_2
