"""Classic control as kernel worlds: compiled versions of Gymnasium's envs of the same names.

From the same state, the same actions lead to the same next state as in Gymnasium; tests/worlds/test_classic.py checks
this. The random numbers differ, so the same seed gives another initial state than in Gymnasium.
"""

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.kernel.random import uniform
from rookery.kernel.world import KernelWorld

TURN = 2.0 * math.pi
PER_TURN = 1.0 / TURN
SMALL = 0.3
S3, S5, S7, S9 = -1 / 6, 1 / 120, -1 / 5040, 1 / 362880
C4, C6, C8, C10 = 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800


def wrapped(angle: float) -> float:
    """The same direction, between -pi and pi.

    >>> round(wrapped(7.0), 4), wrapped(-1.5)
    (0.7168, -1.5)
    """
    return angle - TURN * math.floor((angle + math.pi) * PER_TURN)


def sine_and_cosine(angle: float) -> tuple[float, float]:
    """(sine, cosine) of an angle that is mostly small: then by the first terms of their series, exact to 1e-13.
    The library's reduce their argument first, and of CartPole's step took a third."""
    if abs(angle) > SMALL:
        return math.sin(angle), math.cos(angle)
    q = angle * angle  # the terms in pairs, so that they need not wait for one another
    q2 = q * q
    q4 = q2 * q2
    sine = (1.0 + S3 * q) + (S5 + S7 * q) * q2 + S9 * q4
    cosine = (1.0 - 0.5 * q) + (C4 + C6 * q) * q2 + (C8 + C10 * q) * q4
    return angle * sine, cosine


CART_STEP = 0.02
RAIL = 2.4  # the cart may roll this far from the middle
LEAN = math.radians(12)  # the pole may lean this far
# The bounds are twice as wide, so that the last observation of an episode is inside them.
CART_LIMITS = np.array([2 * RAIL, np.inf, 2 * LEAN, np.inf], np.float32)


class CartPole(KernelWorld):
    """Keep the pole upright by pushing the cart to the left (0) or to the right (1).

    Every step is rewarded with 1; with `sutton_barto_reward`, with 0, and with -1 when the pole falls.
    """

    observation_space = spaces.Box(-CART_LIMITS, CART_LIMITS, dtype=np.float32)
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
        state.x += CART_STEP * state.velocity
        state.velocity += CART_STEP * (push - lever * turn * cosine)
        state.angle += CART_STEP * state.spin
        state.spin += CART_STEP * turn
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


PENDULUM_STEP = 0.05
TOP_SPIN = 8.0
TOP_TORQUE = 2.0
PENDULUM_LIMITS = np.array([1.0, 1.0, TOP_SPIN], np.float32)


class Pendulum(KernelWorld):
    """Swing the rod up and keep it there. An angle of 0 is upright; the observation is its cosine, sine and spin."""

    observation_space = spaces.Box(-PENDULUM_LIMITS, PENDULUM_LIMITS, dtype=np.float32)
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
        spin = state.spin + PENDULUM_STEP * (fall + float(lift))
        state.spin = min(max(spin, -TOP_SPIN), TOP_SPIN)
        state.angle += PENDULUM_STEP * state.spin
        return -cost, False

    @staticmethod
    def observe(state: Any, out: Any) -> None:
        out[0] = math.cos(state.angle)
        out[1] = math.sin(state.angle)
        out[2] = state.spin


LEFT_END, RIGHT_END = -1.2, 0.6
TOP_SPEED = 0.07


def begin(state: Any) -> None:
    """Stand somewhere near the bottom of the valley."""
    state.position = uniform(state, -0.6, -0.4)


def drive(state: Any, acceleration: float, gravity: float) -> None:
    """Move the car for one step; the left end of the road is a wall."""
    velocity = state.velocity + acceleration - gravity * math.cos(3.0 * state.position)
    velocity = min(max(velocity, -TOP_SPEED), TOP_SPEED)
    state.position = min(max(state.position + velocity, LEFT_END), RIGHT_END)
    state.velocity = 0.0 if state.position == LEFT_END and velocity < 0.0 else velocity


def look(state: Any, out: Any) -> None:
    """What the driver sees."""
    out[0] = state.position
    out[1] = state.velocity


def at_goal(state: Any, params: Any) -> bool:
    """Whether the car is far enough up, and fast enough."""
    return state.position >= params.goal_position and state.velocity >= params.goal_velocity


class MountainCar(KernelWorld):
    """Drive left (0), not at all (1) or right (2). Every step costs 1 until the car is up."""

    observation_space = spaces.Box(
        np.array([LEFT_END, -TOP_SPEED], np.float32), np.array([RIGHT_END, TOP_SPEED], np.float32), dtype=np.float32
    )
    action_space = spaces.Discrete(3)
    state = {"position": "f8", "velocity": "f8"}
    parameters = {"force": 0.001, "gravity": 0.0025, "goal_position": 0.5, "goal_velocity": 0.0}
    time_limit = 200

    reset = staticmethod(begin)
    observe = staticmethod(look)

    @staticmethod
    def step(state: Any, action: Any, params: Any) -> Any:
        drive(state, (action - 1) * params.force, params.gravity)
        return -1.0, at_goal(state, params)


class MountainCarContinuous(KernelWorld):
    """Drive with a force between -1 and 1. The goal is rewarded with 100; force costs a tenth of its square."""

    observation_space = MountainCar.observation_space
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    state = MountainCar.state
    parameters = {"power": 0.0015, "gravity": 0.0025, "goal_position": 0.45, "goal_velocity": 0.0}
    time_limit = 999
    clips_actions = True

    reset = staticmethod(begin)
    observe = staticmethod(look)

    @staticmethod
    def step(state: Any, action: Any, params: Any) -> Any:
        wanted = float(action[0])
        drive(state, min(max(wanted, -1.0), 1.0) * params.power, params.gravity)
        arrived = at_goal(state, params)
        return (100.0 if arrived else 0.0) - 0.1 * wanted * wanted, arrived  # the cost is that of the unclipped force


ACROBOT_STEP = 0.2
TOP_SPIN_1, TOP_SPIN_2 = 4.0 * math.pi, 9.0 * math.pi
ACROBOT_LIMITS = np.array([1.0, 1.0, 1.0, 1.0, TOP_SPIN_1, TOP_SPIN_2], np.float32)


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

    observation_space = spaces.Box(-ACROBOT_LIMITS, ACROBOT_LIMITS, dtype=np.float32)
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
        h = 0.5 * ACROBOT_STEP  # Runge and Kutta's method of fourth order
        du1, dv1 = accelerations(a, b, u, v, torque, params)
        u2, v2 = u + h * du1, v + h * dv1
        du2, dv2 = accelerations(a + h * u, b + h * v, u2, v2, torque, params)
        u3, v3 = u + h * du2, v + h * dv2
        du3, dv3 = accelerations(a + h * u2, b + h * v2, u3, v3, torque, params)
        u4, v4 = u + ACROBOT_STEP * du3, v + ACROBOT_STEP * dv3
        du4, dv4 = accelerations(a + ACROBOT_STEP * u3, b + ACROBOT_STEP * v3, u4, v4, torque, params)
        sixth = ACROBOT_STEP / 6.0
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
