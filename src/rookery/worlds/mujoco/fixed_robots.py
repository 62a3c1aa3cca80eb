"""Robots that stay in their place: Reacher and Pusher, arms that bring their tip to a target and an object to a goal;
InvertedPendulum and InvertedDoublePendulum, a cart with one pole or with two."""

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.kernel.random import uniform
from rookery.worlds.mujoco.gymnasium_robot import (
    GymnasiumRobot,
    single,
    squared_sum,
    start_normal,
    start_uniform,
    write_state,
)


def distance(data: Any, one: int, other: int) -> float:
    """Between two bodies."""
    x = data.xpos[one, 0] - data.xpos[other, 0]
    y = data.xpos[one, 1] - data.xpos[other, 1]
    z = data.xpos[one, 2] - data.xpos[other, 2]
    return math.sqrt(x * x + y * y + z * z)


class Reacher(GymnasiumRobot):
    """Bring the tip of an arm with two joints to the target."""

    xml_file = "reacher.xml"
    frame_skip = 2
    time_limit = 50
    observation_space = spaces.Box(-np.inf, np.inf, (10,), np.float64)
    parameters = {"reward_dist_weight": 1.0, "reward_control_weight": 1.0}
    ids = {"fingertip": ("body", "fingertip"), "target": ("body", "target")}
    info = {"reward_dist": "f8", "reward_ctrl": "f8"}
    camera = {"trackbodyid": 0}

    @staticmethod
    def reset(state: Any, data: Any) -> None:
        joints, dofs = len(data.qpos), len(data.qvel)
        for k in range(joints):
            data.qpos[k] += uniform(state, -0.1, 0.1)
        x = y = 1.0
        while math.sqrt(x * x + y * y) >= 0.2:
            x, y = uniform(state, -0.2, 0.2), uniform(state, -0.2, 0.2)
        data.qpos[joints - 2], data.qpos[joints - 1] = x, y
        for k in range(dofs):
            data.qvel[k] = data.qvel[k] + uniform(state, -0.005, 0.005) if k < dofs - 2 else 0.0

    @staticmethod
    def reward(data: Any, action: Any, params: Any, ids: Any, info: Any) -> Any:
        info.reward_dist = -distance(data, ids.fingertip, ids.target) * params.reward_dist_weight
        info.reward_ctrl = single(-squared_sum(action) * single(params.reward_control_weight))
        return info.reward_dist + info.reward_ctrl, False

    @staticmethod
    def observe(data: Any, out: Any, ids: Any) -> None:
        for k in range(2):
            out[k], out[2 + k] = math.cos(data.qpos[k]), math.sin(data.qpos[k])
            out[4 + k], out[6 + k] = data.qpos[2 + k], data.qvel[k]
            out[8 + k] = data.xpos[ids.fingertip, k] - data.xpos[ids.target, k]


class Pusher(GymnasiumRobot):
    """Push a cylinder to the goal with an arm of seven joints."""

    xml_file = "pusher_v5.xml"
    frame_skip = 5
    time_limit = 100
    observation_space = spaces.Box(-np.inf, np.inf, (23,), np.float64)
    parameters = {"reward_near_weight": 0.5, "reward_dist_weight": 1.0, "reward_control_weight": 0.1}
    ids = {"tip": ("body", "tips_arm"), "object": ("body", "object"), "goal": ("body", "goal")}
    info = {"reward_dist": "f8", "reward_ctrl": "f8", "reward_near": "f8"}
    camera = {"trackbodyid": -1, "distance": 4.0}

    @staticmethod
    def reset(state: Any, data: Any) -> None:
        joints, dofs = len(data.qpos), len(data.qvel)
        x = y = 0.0
        while math.sqrt(x * x + y * y) <= 0.17:  # the goal is at the origin
            x, y = uniform(state, -0.3, 0.0), uniform(state, -0.2, 0.2)
        data.qpos[joints - 4], data.qpos[joints - 3] = x, y
        data.qpos[joints - 2], data.qpos[joints - 1] = 0.0, 0.0
        for k in range(dofs):
            data.qvel[k] = data.qvel[k] + uniform(state, -0.005, 0.005) if k < dofs - 4 else 0.0

    @staticmethod
    def reward(data: Any, action: Any, params: Any, ids: Any, info: Any) -> Any:
        info.reward_near = -distance(data, ids.object, ids.tip) * params.reward_near_weight
        info.reward_dist = -distance(data, ids.object, ids.goal) * params.reward_dist_weight
        info.reward_ctrl = single(-squared_sum(action) * single(params.reward_control_weight))
        return info.reward_dist + info.reward_ctrl + info.reward_near, False

    @staticmethod
    def observe(data: Any, out: Any, ids: Any) -> None:
        for k in range(7):
            out[k], out[7 + k] = data.qpos[k], data.qvel[k]
        for k in range(3):
            out[14 + k], out[17 + k] = data.xpos[ids.tip, k], data.xpos[ids.object, k]
            out[20 + k] = data.xpos[ids.goal, k]


class InvertedPendulum(GymnasiumRobot):
    """Keep the pole upright."""

    xml_file = "inverted_pendulum.xml"
    frame_skip = 2
    parameters = {"reset_noise_scale": 0.01}
    info = {"reward_survive": "i8"}
    camera = {"trackbodyid": 0, "distance": 2.04}

    @staticmethod
    def reset(state: Any, data: Any, params: Any) -> None:
        start_uniform(state, data, params.reset_noise_scale)

    @staticmethod
    def reward(data: Any, info: Any) -> Any:
        fallen = abs(data.qpos[1]) > 0.2
        info.reward_survive = 0 if fallen else 1
        return float(info.reward_survive), fallen

    @staticmethod
    def observe(data: Any, out: Any) -> None:
        write_state(data, out, 0)


class InvertedDoublePendulum(GymnasiumRobot):
    """Keep both poles upright."""

    xml_file = "inverted_double_pendulum.xml"
    frame_skip = 5
    observation_space = spaces.Box(-np.inf, np.inf, (9,), np.float64)
    parameters = {"healthy_reward": 10.0, "reset_noise_scale": 0.1}
    info = {"reward_survive": "f8", "distance_penalty": "f8", "velocity_penalty": "f8"}
    camera = {"trackbodyid": 0, "distance": 4.1225, "lookat": (0.0, 0.0, 0.12250000000000005)}

    @staticmethod
    def reset(state: Any, data: Any, params: Any) -> None:
        start_normal(state, data, params.reset_noise_scale)

    @staticmethod
    def reward(data: Any, params: Any, info: Any) -> Any:
        x, y = data.site_xpos[0, 0], data.site_xpos[0, 2]
        first, second = data.qvel[1], data.qvel[2]
        fallen = y <= 1.0
        info.reward_survive = 0.0 if fallen else params.healthy_reward
        info.distance_penalty = -(0.01 * (x * x) + (y - 2.0) * (y - 2.0))
        info.velocity_penalty = -(1e-3 * (first * first) + 5e-3 * (second * second))
        return info.reward_survive + info.distance_penalty + info.velocity_penalty, fallen

    @staticmethod
    def observe(data: Any, out: Any) -> None:
        out[0] = data.qpos[0]
        for k in range(2):
            out[1 + k] = math.sin(data.qpos[1 + k])
            out[3 + k] = math.cos(data.qpos[1 + k])
        for k in range(3):
            out[5 + k] = min(max(data.qvel[k], -10.0), 10.0)
        out[8] = min(max(data.qfrc_constraint[0], -10.0), 10.0)
