"""MountainCar: a car in a valley, too weak to drive straight up the hill; with three pedals, or with any force."""

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.kernel.random import uniform
from rookery.kernel.world import KernelWorld

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
