"""Pictures of a MujocoWorld, by Gymnasium's renderer of MuJoCo."""

from __future__ import annotations

import os
from copy import copy
from typing import Any

import numpy as np

from rookery.errors import WorldError
from rookery.worlds.mujoco.mujoco_library import load

SIZE = 480


class SimulationRenderer:
    """Draws states of one world, in a model and data of its own."""

    def __init__(self, world: Any) -> None:
        from gymnasium.envs.mujoco.mujoco_rendering import MujocoRenderer

        self._model, self._state_kind = copy(world.model), world.state_kind
        options = {"width": SIZE, "height": SIZE, **world.view_options}
        camera = options.pop("default_camera_config", None) or dict(world.camera) or None
        sizes = self._model.vis.global_  # pictures cannot be larger than the buffer in which they are drawn
        sizes.offwidth, sizes.offheight = max(sizes.offwidth, options["width"]), max(sizes.offheight, options["height"])
        self._data = load().package.MjData(self._model)
        self._renderer = MujocoRenderer(self._model, self._data, camera, **options)

    def picture(self, state: np.ndarray, mode: str) -> Any:
        """An array for "rgb_array"; None for "human", which shows it in a window."""
        package = load().package
        package.mj_setState(self._model, self._data, state, self._state_kind)
        package.mj_forward(self._model, self._data)
        try:
            return self._renderer.render(mode)
        except Exception as error:  # OpenGL's libraries raise anything, even AttributeError
            chosen = os.environ.get("MUJOCO_GL", "glfw")
            raise WorldError(
                f"MuJoCo cannot draw with MUJOCO_GL={chosen} ({error}): set it to egl (a GPU, or Mesa's libegl1) or "
                "osmesa (libosmesa6); glfw needs a screen"
            ) from error

    def close(self) -> None:
        """Close the window and free what pictures need."""
        self._renderer.close()
