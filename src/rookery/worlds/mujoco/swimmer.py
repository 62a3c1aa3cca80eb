"""Swimmer: three links in a fluid that swim to the right."""

import math
from typing import Any

from rookery.worlds.mujoco.gymnasium_robot import GymnasiumRobot, action_cost, start_uniform, write_state
from rookery.worlds.mujoco.step_functions import copy_action


class Swimmer(GymnasiumRobot):
    """Swim fast, with small actions."""

    xml_file = "swimmer.xml"
    frame_skip = 4
    hidden_positions = 2
    parameters = {"forward_reward_weight": 1.0, "ctrl_cost_weight": 1e-4, "reset_noise_scale": 0.1}
    settings = {"exclude_current_positions_from_observation": True}
    state = {"x_before": "f8", "y_before": "f8"}
    info = {
        "x_position": "f8", "y_position": "f8", "distance_from_origin": "f8", "x_velocity": "f8", "y_velocity": "f8",
        "reward_forward": "f8", "reward_ctrl": "f8",
    }  # fmt: skip

    @staticmethod
    def reset(state: Any, data: Any, params: Any) -> None:
        start_uniform(state, data, params.reset_noise_scale)

    @staticmethod
    def after_reset(data: Any, info: Any) -> None:
        write_place(data, info)

    @staticmethod
    def control(state: Any, data: Any, action: Any) -> None:
        state.x_before, state.y_before = data.qpos[0], data.qpos[1]
        copy_action(data, action)

    @staticmethod
    def reward(state: Any, data: Any, action: Any, params: Any, model: Any, info: Any) -> Any:
        write_place(data, info)
        info.x_velocity = (data.qpos[0] - state.x_before) / model.dt
        info.y_velocity = (data.qpos[1] - state.y_before) / model.dt
        info.reward_forward = params.forward_reward_weight * info.x_velocity
        info.reward_ctrl = -action_cost(params.ctrl_cost_weight, action)
        return info.reward_forward + info.reward_ctrl, False

    @staticmethod
    def observe(data: Any, out: Any, settings: Any) -> None:
        write_state(data, out, 2 if settings.exclude_current_positions_from_observation else 0)


def write_place(data: Any, info: Any) -> None:
    """Where the robot is, as infos."""
    info.x_position, info.y_position = data.qpos[0], data.qpos[1]
    info.distance_from_origin = math.sqrt(data.qpos[0] * data.qpos[0] + data.qpos[1] * data.qpos[1])
