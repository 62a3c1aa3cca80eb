"""What is simulated. Worlds know nothing of engines or learners.

The names here are for packages that add a world, and the classic worlds as examples to derive from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rookery.lazy import lazy_names

if TYPE_CHECKING:
    from rookery.worlds.catch import Catch
    from rookery.worlds.classic import Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum
    from rookery.worlds.mujoco.mujoco_world import MujocoWorld
    from rookery.worlds.registry import names, specs
    from rookery.worlds.world_spec import (
        AgentReport,
        PlayableGame,
        ShippedAgent,
        TwoPlayerForm,
        Viewer,
        WorldOption,
        WorldSpec,
    )

__all__ = [
    "Acrobot",
    "AgentReport",
    "CartPole",
    "Catch",
    "MountainCar",
    "MountainCarContinuous",
    "MujocoWorld",
    "Pendulum",
    "PlayableGame",
    "ShippedAgent",
    "TwoPlayerForm",
    "Viewer",
    "WorldOption",
    "WorldSpec",
    "names",
    "specs",
]

__getattr__, __dir__ = lazy_names(__name__)
