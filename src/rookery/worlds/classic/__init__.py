"""Classic control as kernel worlds: compiled versions of Gymnasium's envs of the same names.

From the same state, the same actions lead to the same next state as in Gymnasium; tests/worlds/test_classic.py checks
this. The random numbers differ, so the same seed gives another initial state than in Gymnasium.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rookery.worlds.classic.acrobot import Acrobot
    from rookery.worlds.classic.cartpole import CartPole
    from rookery.worlds.classic.mountain_car import MountainCar, MountainCarContinuous
    from rookery.worlds.classic.pendulum import Pendulum

__all__ = ["Acrobot", "CartPole", "MountainCar", "MountainCarContinuous", "Pendulum"]

MODULES = {
    "Acrobot": "acrobot",
    "CartPole": "cartpole",
    "MountainCar": "mountain_car",
    "MountainCarContinuous": "mountain_car",
    "Pendulum": "pendulum",
}


def __getattr__(name: str) -> Any:
    """A world is imported when it is first used: `worlds.registry` reads the specs here without it."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
