"""InvertedPendulum and InvertedDoublePendulum: a cart with one pole, or with two on top of each other."""

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.worlds.mujoco.gymnasium_robot import GymnasiumRobot, start_normal, start_uniform, write_state


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
