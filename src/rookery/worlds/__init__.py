"""What is simulated. Worlds know nothing of engines or learners.

The names here are for packages that add a world, and the classic worlds as examples to derive from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rookery.lazy import lazy_names

if TYPE_CHECKING:
    from rookery.worlds.catch import Catch as Catch
    from rookery.worlds.classic import (
        Acrobot as Acrobot,
        CartPole as CartPole,
        MountainCar as MountainCar,
        MountainCarContinuous as MountainCarContinuous,
        Pendulum as Pendulum,
    )
    from rookery.worlds.mujoco.mujoco_world import MujocoWorld as MujocoWorld
    from rookery.worlds.registry import names as names, specs as specs
    from rookery.worlds.world_spec import (
        AgentReport as AgentReport,
        PlayableGame as PlayableGame,
        ShippedAgent as ShippedAgent,
        TwoPlayerForm as TwoPlayerForm,
        Viewer as Viewer,
        WorldOption as WorldOption,
        WorldSpec as WorldSpec,
    )

__getattr__, __dir__, __all__ = lazy_names(__name__)
