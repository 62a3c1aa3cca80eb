"""Catch, as rookery knows it by name."""

from __future__ import annotations

from rookery.worlds.world_spec import WorldSpec

CATCH = WorldSpec(
    name="catch",
    source="rookery/Catch-v0",
    kernels={"rookery/Catch-v0": "rookery.worlds.catch.game:Catch"},
    is_kernel=True,
    extra="kernel",
    recipes="rookery.worlds.catch.recipes:RECIPES",
)
