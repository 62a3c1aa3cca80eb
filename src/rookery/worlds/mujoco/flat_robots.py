"""Robots in a plane that move to the right: Hopper hops, Walker2d walks, HalfCheetah runs, Swimmer swims."""

import math
from typing import Any

from rookery.worlds.mujoco.gymnasium_robot import (
    GymnasiumRobot,
    action_cost,
    start_normal,
    start_uniform,
    write_clipped_state,
    write_state,
)
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


class Walker2d(GymnasiumRobot):
    """Walk far, and do not fall."""

    xml_file = "walker2d_v5.xml"
    frame_skip = 4
    parameters = {
        "forward_reward_weight": 1.0, "ctrl_cost_weight": 1e-3, "healthy_reward": 1.0, "terminate_when_unhealthy": True,
        "healthy_z_range": (0.8, 2.0), "healthy_angle_range": (-1.0, 1.0), "reset_noise_scale": 5e-3,
    }  # fmt: skip
    settings = Hopper.settings
    state = Hopper.state
    info = Hopper.info
    camera = {"trackbodyid": 2, "distance": 4.0, "lookat": (0.0, 0.0, 1.15), "elevation": -20.0}
    reset, after_reset = staticmethod(Hopper.reset), staticmethod(Hopper.after_reset)
    control, observe = staticmethod(Hopper.control), staticmethod(Hopper.observe)

    @staticmethod
    def reward(state: Any, data: Any, action: Any, params: Any, model: Any, info: Any) -> Any:
        healthy = is_within(data.qpos[1], params.healthy_z_range) and is_within(
            data.qpos[2], params.healthy_angle_range
        )
        return reward_of_legs(state, data, action, params, model, info, healthy)


class HalfCheetah(GymnasiumRobot):
    """Run fast, with small actions."""

    xml_file = "half_cheetah.xml"
    frame_skip = 5
    parameters = {"forward_reward_weight": 1.0, "ctrl_cost_weight": 0.1, "reset_noise_scale": 0.1}
    settings = {"exclude_current_positions_from_observation": True}
    state = {"x_before": "f8"}
    info = {"x_position": "f8", "x_velocity": "f8", "reward_forward": "f8", "reward_ctrl": "f8"}
    camera = {"distance": 4.0}

    @staticmethod
    def reset(state: Any, data: Any, params: Any) -> None:
        start_normal(state, data, params.reset_noise_scale)

    @staticmethod
    def after_reset(data: Any, info: Any) -> None:
        info.x_position = data.qpos[0]

    @staticmethod
    def control(state: Any, data: Any, action: Any) -> None:
        state.x_before = data.qpos[0]
        copy_action(data, action)

    @staticmethod
    def reward(state: Any, data: Any, action: Any, params: Any, model: Any, info: Any) -> Any:
        info.x_position = data.qpos[0]
        info.x_velocity = (data.qpos[0] - state.x_before) / model.dt
        info.reward_forward = params.forward_reward_weight * info.x_velocity
        info.reward_ctrl = -action_cost(params.ctrl_cost_weight, action)
        return info.reward_forward + info.reward_ctrl, False

    @staticmethod
    def observe(data: Any, out: Any, settings: Any) -> None:
        write_state(data, out, 1 if settings.exclude_current_positions_from_observation else 0)


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
