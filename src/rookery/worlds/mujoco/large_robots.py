"""Robots in space: Humanoid walks, HumanoidStandup gets up, Ant walks on four legs."""

import math
from typing import Any

from rookery.worlds.mujoco.flat_robots import write_place
from rookery.worlds.mujoco.gymnasium_robot import (
    GymnasiumRobot,
    action_cost,
    clipped_squared_sum,
    double_squared_sum,
    start_normal,
    start_uniform,
    write_state,
)

PARTS = {
    "exclude_current_positions_from_observation": True, "include_cinert_in_observation": True,
    "include_cvel_in_observation": True, "include_qfrc_actuator_in_observation": True,
    "include_cfrc_ext_in_observation": True,
}  # fmt: skip
ROOT = 6  # degrees of freedom of the root, whose joint has no actuator


class HumanoidBody(GymnasiumRobot):
    """What both tasks have in common."""

    frame_skip = 5
    hidden_positions = 2
    settings = PARTS

    def observation_size(self) -> int:
        bodies, fixed = self.model.nbody - 1, self.fixed
        parts = 10 * bodies * bool(fixed["include_cinert_in_observation"])
        parts += 6 * bodies * bool(fixed["include_cvel_in_observation"])
        parts += (self.model.nv - ROOT) * bool(fixed["include_qfrc_actuator_in_observation"])
        parts += 6 * bodies * bool(fixed["include_cfrc_ext_in_observation"])
        return super().observation_size() + parts

    @staticmethod
    def reset(state: Any, data: Any, params: Any) -> None:
        start_uniform(state, data, params.reset_noise_scale)

    @staticmethod
    def observe(data: Any, out: Any, settings: Any) -> None:
        at = write_state(data, out, 2 if settings.exclude_current_positions_from_observation else 0)
        if settings.include_cinert_in_observation:
            at = write_rows(data.cinert, 10, out, at)
        if settings.include_cvel_in_observation:
            at = write_rows(data.cvel, 6, out, at)
        if settings.include_qfrc_actuator_in_observation:
            for k in range(ROOT, len(data.qfrc_actuator)):
                out[at + k - ROOT] = data.qfrc_actuator[k]
            at += len(data.qfrc_actuator) - ROOT
        if settings.include_cfrc_ext_in_observation:
            write_rows(data.cfrc_ext, 6, out, at)


def write_rows(rows: Any, width: int, out: Any, at: int) -> int:
    """Write a row per body, without the first, the ground; returns where the next number belongs."""
    for body in range(1, rows.shape[0]):
        for k in range(width):
            out[at + k] = rows[body, k]
        at += width
    return at


def write_tendons(data: Any, info: Any) -> None:
    """Lengths and velocities of the tendons, as infos."""
    for k in range(len(data.ten_length)):
        info.tendon_length[k] = data.ten_length[k]
        info.tendon_velocity[k] = data.ten_velocity[k]


def mass_centre(data: Any, model: Any, axis: int) -> float:
    """The centre of mass of all bodies, along an axis."""
    moment, mass = 0.0, 0.0
    for body in range(len(model.body_mass)):
        moment += model.body_mass[body] * data.xipos[body, axis]
        mass += model.body_mass[body]
    return moment / mass


class Humanoid(HumanoidBody):
    """Walk fast, and do not fall."""

    xml_file = "humanoid.xml"
    parameters = {
        "forward_reward_weight": 1.25, "ctrl_cost_weight": 0.1, "contact_cost_weight": 5e-7,
        "contact_cost_range": (-math.inf, 10.0), "healthy_reward": 5.0, "terminate_when_unhealthy": True,
        "healthy_z_range": (1.0, 2.0), "reset_noise_scale": 1e-2,
    }  # fmt: skip
    state = {"x_before": "f8", "y_before": "f8"}
    info = {
        "x_position": "f8", "y_position": "f8", "tendon_length": ("f8", (2,)), "tendon_velocity": ("f8", (2,)),
        "distance_from_origin": "f8", "x_velocity": "f8", "y_velocity": "f8", "reward_survive": "f8",
        "reward_forward": "f8", "reward_ctrl": "f8", "reward_contact": "f8",
    }  # fmt: skip
    camera = {"trackbodyid": 1, "distance": 4.0, "lookat": (0.0, 0.0, 2.0), "elevation": -20.0}

    @staticmethod
    def after_reset(state: Any, data: Any, model: Any, info: Any) -> None:
        write_place(data, info)
        write_tendons(data, info)
        state.x_before, state.y_before = mass_centre(data, model, 0), mass_centre(data, model, 1)

    @staticmethod
    def reward(state: Any, data: Any, params: Any, model: Any, info: Any) -> Any:
        x, y = mass_centre(data, model, 0), mass_centre(data, model, 1)
        healthy = params.healthy_z_range[0] < data.qpos[2] < params.healthy_z_range[1]
        contact = params.contact_cost_weight * clipped_squared_sum(data.cfrc_ext, -math.inf, math.inf)
        contact = min(max(contact, params.contact_cost_range[0]), params.contact_cost_range[1])
        write_place(data, info)
        write_tendons(data, info)
        info.x_velocity, info.y_velocity = (x - state.x_before) / model.dt, (y - state.y_before) / model.dt
        info.reward_survive = params.healthy_reward if healthy else 0.0
        info.reward_forward = params.forward_reward_weight * info.x_velocity
        info.reward_ctrl = -params.ctrl_cost_weight * double_squared_sum(data.ctrl)
        info.reward_contact = -contact
        state.x_before, state.y_before = x, y
        total = info.reward_forward + info.reward_survive - (contact - info.reward_ctrl)
        return total, bool(params.terminate_when_unhealthy) and not healthy


class HumanoidStandup(HumanoidBody):
    """Get up from the ground."""

    xml_file = "humanoidstandup.xml"
    parameters = {
        "uph_cost_weight": 1.0, "ctrl_cost_weight": 0.1, "impact_cost_weight": 0.5e-6,
        "impact_cost_range": (-math.inf, 10.0), "reset_noise_scale": 1e-2,
    }  # fmt: skip
    info = {
        "x_position": "f8", "y_position": "f8", "z_distance_from_origin": "f8", "tendon_length": ("f8", (2,)),
        "tendon_velocity": ("f8", (2,)), "reward_linup": "f8", "reward_quadctrl": "f8", "reward_impact": "f8",
    }  # fmt: skip
    camera = {"trackbodyid": 1, "distance": 4.0, "lookat": (0.0, 0.0, 0.8925), "elevation": -20.0}

    @staticmethod
    def after_reset(data: Any, model: Any, info: Any) -> None:
        info.x_position, info.y_position = data.qpos[0], data.qpos[1]
        info.z_distance_from_origin = data.qpos[2] - model.qpos0[2]
        write_tendons(data, info)

    @staticmethod
    def reward(data: Any, params: Any, model: Any, info: Any) -> Any:
        impact = params.impact_cost_weight * clipped_squared_sum(data.cfrc_ext, -math.inf, math.inf)
        impact = min(max(impact, params.impact_cost_range[0]), params.impact_cost_range[1])
        info.x_position, info.y_position = data.qpos[0], data.qpos[1]
        info.z_distance_from_origin = data.qpos[2] - model.qpos0[2]
        write_tendons(data, info)
        info.reward_linup = data.qpos[2] / model.timestep
        info.reward_quadctrl = -params.ctrl_cost_weight * double_squared_sum(data.ctrl)
        info.reward_impact = -impact
        return info.reward_linup + info.reward_quadctrl - impact + 1.0, False


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
