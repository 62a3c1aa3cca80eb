"""Settings for the market worlds that are known to work. `benchmarks/markets.py` prints what they reach."""

from __future__ import annotations

from rookery.worlds.world_spec import Recipes

PPO = {
    "rollout_length": 64, "minibatches": 8, "epochs": 4, "learning_rate": 1e-3, "learning_rate_schedule": "linear",
    "normalise_observations": True,
}  # fmt: skip
RECIPES: Recipes = {
    "crypto": {"ppo": {"num_envs": 64, "steps": 1_000_000, "ppo": PPO}},
    "forex": {"ppo": {"num_envs": 64, "steps": 1_000_000, "ppo": PPO}},
}
