"""Classic control, as rookery knows it by name: compiled versions of Gymnasium's envs."""

from __future__ import annotations

from rookery.worlds.world_spec import WorldSpec

NAMES = {
    "CartPole-v1": "CartPole",
    "Pendulum-v1": "Pendulum",
    "Acrobot-v1": "Acrobot",
    "MountainCar-v0": "MountainCar",
    "MountainCarContinuous-v0": "MountainCarContinuous",
}

CLASSIC = tuple(
    WorldSpec(
        name=gym_id,
        source=f"rookery/{gym_id}",
        kernels={f"rookery/{gym_id}": f"rookery.worlds.classic:{world}"},
        is_kernel=True,
        original=gym_id,
        extra="kernel",
        recipes="rookery.worlds.classic.recipes:RECIPES",
    )
    for gym_id, world in NAMES.items()
)
