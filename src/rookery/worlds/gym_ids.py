"""The worlds that Gymnasium knows by name, once rookery is imported."""

from __future__ import annotations

import gymnasium as gym

WORLDS = {
    "CartPole-v1": "rookery.worlds.classic:CartPole",
    "Pendulum-v1": "rookery.worlds.classic:Pendulum",
    "Acrobot-v1": "rookery.worlds.classic:Acrobot",
    "MountainCar-v0": "rookery.worlds.classic:MountainCar",
    "Hockey-v0": "rookery.worlds.hockey.world:hockey",
    "HockeyOne-v0": "rookery.worlds.hockey.world:hockey_one",
    "MountainCarContinuous-v0": "rookery.worlds.classic:MountainCarContinuous",
}
GAME_BOY = "rookery/GameBoy-v0"


def register() -> None:
    """Make "rookery/CartPole-v1" and the others known to `gymnasium.make`."""
    if GAME_BOY not in gym.registry:
        gym.register(GAME_BOY, entry_point="rookery.worlds.gameboy.env:GameBoyEnv")
    for name, world in WORLDS.items():
        if f"rookery/{name}" not in gym.registry:
            gym.register(f"rookery/{name}", entry_point="rookery.kernel.kernel_env:KernelEnv", kwargs={"world": world})
