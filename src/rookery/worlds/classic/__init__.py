"""Classic control as kernel worlds: twins of Gymnasium's envs of the same names.

From the same state, the same actions lead a twin where they lead the original; tests/worlds/test_classic.py holds them
to it. Random numbers are drawn otherwise, so the same seed starts a twin elsewhere than the original.
"""

from rookery.worlds.classic.acrobot import Acrobot
from rookery.worlds.classic.cartpole import CartPole
from rookery.worlds.classic.mountain_car import MountainCar, MountainCarContinuous
from rookery.worlds.classic.pendulum import Pendulum

__all__ = ["Acrobot", "CartPole", "MountainCar", "MountainCarContinuous", "Pendulum"]
