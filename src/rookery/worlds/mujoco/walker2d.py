"""Walker2d: a flat robot with two legs that walks to the right."""

from typing import Any

from rookery.worlds.mujoco.gymnasium_robot import GymnasiumRobot
from rookery.worlds.mujoco.hopper import Hopper, is_within, reward_of_legs


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
