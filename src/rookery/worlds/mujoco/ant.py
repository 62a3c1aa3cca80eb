"""Ant: a robot with four legs that walks to the right."""

from typing import Any

from rookery.worlds.mujoco.gymnasium_robot import (
    GymnasiumRobot,
    action_cost,
    clipped_squared_sum,
    start_normal,
    write_state,
)
from rookery.worlds.mujoco.swimmer import write_place


class Ant(GymnasiumRobot):
    """Walk fast, stay upright, and do not hit the ground hard."""

    xml_file = "ant.xml"
    frame_skip = 5
    hidden_positions = 2
    parameters = {
        "forward_reward_weight": 1.0, "ctrl_cost_weight": 0.5, "contact_cost_weight": 5e-4, "healthy_reward": 1.0,
        "terminate_when_unhealthy": True, "healthy_z_range": (0.2, 1.0), "contact_force_range": (-1.0, 1.0),
        "reset_noise_scale": 0.1,
    }  # fmt: skip
    settings = {
        "main_body": 1, "exclude_current_positions_from_observation": True, "include_cfrc_ext_in_observation": True,
    }  # fmt: skip
    state = {"x_before": "f8", "y_before": "f8"}
    info = {
        "x_position": "f8", "y_position": "f8", "distance_from_origin": "f8", "x_velocity": "f8", "y_velocity": "f8",
        "reward_forward": "f8", "reward_ctrl": "f8", "reward_contact": "f8", "reward_survive": "f8",
    }  # fmt: skip
    camera = {"distance": 4.0}

    def observation_size(self) -> int:
        forces = 6 * (self.model.nbody - 1) * bool(self.fixed["include_cfrc_ext_in_observation"])
        return super().observation_size() + forces

    def encode_settings(self, values: dict[str, Any]) -> dict[str, Any]:
        """The main body is a number, or the name of a body."""
        return super().encode_settings({**values, "main_body": int(self.model.body(values["main_body"]).id)})

    @staticmethod
    def reset(state: Any, data: Any, params: Any) -> None:
        start_normal(state, data, params.reset_noise_scale)

    @staticmethod
    def after_reset(state: Any, data: Any, settings: Any, info: Any) -> None:
        write_place(data, info)
        state.x_before, state.y_before = data.xpos[settings.main_body, 0], data.xpos[settings.main_body, 1]

    @staticmethod
    def reward(state: Any, data: Any, action: Any, params: Any, settings: Any, model: Any, info: Any) -> Any:
        x, y = data.xpos[settings.main_body, 0], data.xpos[settings.main_body, 1]
        healthy = params.healthy_z_range[0] <= data.qpos[2] <= params.healthy_z_range[1]
        low, high = params.contact_force_range[0], params.contact_force_range[1]
        write_place(data, info)
        info.x_velocity, info.y_velocity = (x - state.x_before) / model.dt, (y - state.y_before) / model.dt
        info.reward_forward = info.x_velocity * params.forward_reward_weight
        info.reward_ctrl = -action_cost(params.ctrl_cost_weight, action)
        info.reward_contact = -params.contact_cost_weight * clipped_squared_sum(data.cfrc_ext, low, high)
        info.reward_survive = params.healthy_reward if healthy else 0.0
        state.x_before, state.y_before = x, y
        costs = -info.reward_ctrl - info.reward_contact
        total = info.reward_forward + info.reward_survive - costs
        return total, bool(params.terminate_when_unhealthy) and not healthy

    @staticmethod
    def observe(data: Any, out: Any, params: Any, settings: Any) -> None:
        size = write_state(data, out, 2 if settings.exclude_current_positions_from_observation else 0)
        if settings.include_cfrc_ext_in_observation:
            low, high = params.contact_force_range[0], params.contact_force_range[1]
            for body in range(1, data.cfrc_ext.shape[0]):
                for k in range(6):
                    out[size + 6 * (body - 1) + k] = min(max(data.cfrc_ext[body, k], low), high)
