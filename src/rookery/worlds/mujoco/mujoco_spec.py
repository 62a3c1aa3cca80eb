"""Gymnasium's MuJoCo tasks, as rookery knows them by name: their compiled versions."""

from __future__ import annotations

from rookery.worlds.world_spec import WorldSpec

NAMES = {
    "Ant": "ant",
    "HalfCheetah": "half_cheetah",
    "Hopper": "hopper",
    "Humanoid": "humanoid",
    "HumanoidStandup": "humanoid",
    "InvertedDoublePendulum": "inverted_pendulum",
    "InvertedPendulum": "inverted_pendulum",
    "Pusher": "reaching_arms",
    "Reacher": "reaching_arms",
    "Swimmer": "swimmer",
    "Walker2d": "walker2d",
}

MUJOCO = tuple(
    WorldSpec(
        name=f"{name}-v5",
        source=f"rookery/{name}-v5",
        kernels={f"rookery/{name}-v5": f"rookery.worlds.mujoco.{module}:{name}"},
        is_kernel=True,
        original=f"{name}-v5",
        extra="mujoco",
        recipes="rookery.worlds.gymnasium_recipes:RECIPES",
    )
    for name, module in NAMES.items()
)
