"""HalfCheetah: a flat robot with two legs that runs to the right."""

from typing import Any

from rookery.worlds.mujoco.gymnasium_robot import GymnasiumRobot, action_cost, start_normal, write_state
from rookery.worlds.mujoco.step_functions import copy_action


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
