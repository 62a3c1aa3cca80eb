"""Settings for the market worlds that are known to work. `benchmarks/markets.py` prints what they reach."""

from __future__ import annotations

from rookery.worlds.world_spec import Recipes

RECIPES: Recipes = {
    "crypto": {
        "ppo": {"num_envs": 64, "steps": 1_000_000, "ppo": {"rollout_length": 64, "normalise_observations": True}}
    },
    "forex": {
        "ppo": {"num_envs": 64, "steps": 1_000_000, "ppo": {"rollout_length": 64, "normalise_observations": True}}
    },
}
