"""A robot for tests: an arm on a hinge above the ground, with a motor and two sensors."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery import MujocoWorld
from rookery.kernel.random import uniform

ARM = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <geom name="ground" type="plane" size="2 2 1"/>
    <body name="arm" pos="0 0 0.4">
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom name="bar" type="capsule" fromto="0 0 0 0.5 0 0" size="0.05"/>
      <site name="tip" pos="0.5 0 0"/>
    </body>
  </worldbody>
  <actuator><motor joint="hinge" ctrlrange="-1 1" ctrllimited="true" gear="5"/></actuator>
  <sensor><framepos objtype="site" objname="tip"/><jointvel joint="hinge"/></sensor>
</mujoco>
"""


class Arm(MujocoWorld):
    """Hold the tip high."""

    xml_file = ARM
    frame_skip = 2
    time_limit = 30
    observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float64)
    parameters = {"mass": 1.0}
    settings = {"height_weight": 1.0}
    ids = {"arm": ("body", "arm"), "tip": ("site", "tip")}
    state = {"height_before": "f8"}
    info = {"height": "f8", "force": "f8"}

    @staticmethod
    def configure(model, params, ids):
        model.body_mass[ids.arm] = params.mass

    @staticmethod
    def reset(state, data):
        data.qpos[0] = uniform(state, -0.5, 0.5)

    @staticmethod
    def after_reset(state, data, ids, info):
        state.height_before = data.site_xpos[ids.tip, 2]
        info.height = state.height_before

    @staticmethod
    def reward(state, data, action, settings, model, ids, info):
        info.height = data.site_xpos[ids.tip, 2]
        info.force = data.cfrc_ext[ids.arm, 5]
        speed = (info.height - state.height_before) / model.dt
        state.height_before = info.height
        return settings.height_weight * info.height + 0.1 * speed - 0.01 * action[0] * action[0], info.height < -10.0

    @staticmethod
    def observe(data, out):
        out[0], out[1] = data.qpos[0], data.qvel[0]
        for k in range(3):
            out[2 + k] = data.sensordata[k]


class RandomizedArm(Arm):
    """Changes the model's own numbers, some of them only in some envs; infos show what the step was made with."""

    xml_file = ARM.replace('timestep="0.01"', 'timestep="0.01" gravity="0 0 -9.75"')  # also in single precision
    parameters = {"mass": 1.0, "slide": 0.0}
    info = {**Arm.info, "mass": "f8", "friction": "f8", "fall": "f8"}

    @staticmethod
    def configure(model, params, ids):
        model.body_mass[ids.arm] *= params.mass
        model.gravity[2] *= params.mass
        if params.slide > 0.0:
            model.geom_friction[1, 0] = params.slide

    @staticmethod
    def reward(data, model, ids, info):
        info.mass, info.friction, info.fall = model.body_mass[ids.arm], model.geom_friction[1, 0], model.gravity[2]
        return data.site_xpos[ids.tip, 2], False
