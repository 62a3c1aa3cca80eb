"""Hopper: a flat robot with one leg that hops to the right."""

import math
from typing import Any

from rookery.worlds.mujoco.gymnasium_robot import GymnasiumRobot, action_cost, start_uniform, write_clipped_state
from rookery.worlds.mujoco.step_functions import copy_action


def is_within(number: float, limits: Any) -> bool:
    return limits[0] < number < limits[1]


class Hopper(GymnasiumRobot):
    """Hop far, and do not fall."""

    xml_file = "hopper.xml"
    frame_skip = 4
    parameters = {
        "forward_reward_weight": 1.0, "ctrl_cost_weight": 1e-3, "healthy_reward": 1.0, "terminate_when_unhealthy": True,
        "healthy_state_range": (-100.0, 100.0), "healthy_z_range": (0.7, math.inf), "healthy_angle_range": (-0.2, 0.2),
        "reset_noise_scale": 5e-3,
    }  # fmt: skip
    settings = {"exclude_current_positions_from_observation": True}
    state = {"x_before": "f8"}
    info = {
        "x_position": "f8", "z_distance_from_origin": "f8", "x_velocity": "f8", "reward_forward": "f8",
        "reward_ctrl": "f8", "reward_survive": "f8",
    }  # fmt: skip
    camera = {"trackbodyid": 2, "distance": 3.0, "lookat": (0.0, 0.0, 1.15), "elevation": -20.0}

    @staticmethod
    def reset(state: Any, data: Any, params: Any) -> None:
        start_uniform(state, data, params.reset_noise_scale)

    @staticmethod
    def after_reset(data: Any, model: Any, info: Any) -> None:
        info.x_position = data.qpos[0]
        info.z_distance_from_origin = data.qpos[1] - model.qpos0[1]

    @staticmethod
    def control(state: Any, data: Any, action: Any) -> None:
        state.x_before = data.qpos[0]
        copy_action(data, action)

    @staticmethod
    def reward(state: Any, data: Any, action: Any, params: Any, model: Any, info: Any) -> Any:
        healthy = is_within(data.qpos[1], params.healthy_z_range) and is_within(
            data.qpos[2], params.healthy_angle_range
        )
        for k in range(2, len(data.qpos)):
            healthy = healthy and is_within(data.qpos[k], params.healthy_state_range)
        for k in range(len(data.qvel)):
            healthy = healthy and is_within(data.qvel[k], params.healthy_state_range)
        return reward_of_legs(state, data, action, params, model, info, healthy)

    @staticmethod
    def observe(data: Any, out: Any, settings: Any) -> None:
        write_clipped_state(data, out, 1 if settings.exclude_current_positions_from_observation else 0)


def reward_of_legs(state: Any, data: Any, action: Any, params: Any, model: Any, info: Any, healthy: bool) -> Any:
    """The reward of robots that must stay upright, with its parts as infos, and whether the episode ends."""
    info.x_position = data.qpos[0]
    info.z_distance_from_origin = data.qpos[1] - model.qpos0[1]
    info.x_velocity = (data.qpos[0] - state.x_before) / model.dt
    info.reward_forward = params.forward_reward_weight * info.x_velocity
    info.reward_ctrl = -action_cost(params.ctrl_cost_weight, action)
    info.reward_survive = params.healthy_reward if healthy else 0.0
    total = info.reward_forward + info.reward_survive + info.reward_ctrl
    return total, bool(params.terminate_when_unhealthy) and not healthy
