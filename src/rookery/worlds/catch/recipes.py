"""Settings for Catch that are known to work."""

from __future__ import annotations

from rookery.worlds.world_spec import Recipe, Recipes

CATCH: dict[str, Recipe] = {
    "ppo": {
        "num_envs": 64,
        "steps": 1_000_000,
        "ppo": {
            "rollout_length": 64,
            "minibatches": 8,
            "epochs": 4,
            "gamma": 0.98,
            "learning_rate": 5e-4,
            "hidden": [],
            "activation": "relu",
        },
    },
}
RECIPES: Recipes = {"catch": CATCH}
