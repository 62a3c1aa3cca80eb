"""What rookery should know about the world. This is read at the start of every command, so it imports nothing heavy."""

from rookery.worlds.world_spec import WorldOption, WorldSpec

RECIPES = {"plugin-world": {"ppo": {"num_envs": 2, "ppo": {"rollout_length": 16, "hidden": [16]}}}}

PLUGIN_WORLD = WorldSpec(
    name="plugin-world",
    source="rookery_plugin/Corridor-v0",
    envs={"rookery_plugin/Corridor-v0": "rookery_plugin.corridor:Corridor"},
    recipes="rookery_plugin.world_spec:RECIPES",
    options=(WorldOption("width", "N", "how many cells the corridor has (8)"),),
)
