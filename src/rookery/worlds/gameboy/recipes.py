"""Settings for Game Boy games that are known to work. `benchmarks/learning.py` prints what they reach."""

from __future__ import annotations

from rookery.worlds.world_spec import Recipe, Recipes

MEADOW: dict[str, Recipe] = {
    "ppo": {
        "num_envs": 8,
        "steps": 300_000,
        # Deterministic actions may walk against a bush for ever.
        "evaluation": {"deterministic": False},
        "ppo": {
            "rollout_length": 128,
            "minibatches": 4,
            "gamma": 0.95,
            "learning_rate": 1e-3,
            "entropy": 0.01,
            "normalise_rewards": True,
        },
    },
}
MEADOW_PIXELS: dict[str, Recipe] = {
    "ppo": {
        **MEADOW["ppo"],
        "steps": 500_000,
        "ppo": {
            **MEADOW["ppo"]["ppo"],
            "learning_rate": 5e-4,
            "learning_rate_schedule": "linear",
            "epochs": 3,
            "normalise_observations": True,
        },
    },
}

# For a game whose profile a user wrote: its rewards may be of any size, and most of its screen is scenery.
ANY_GAME: dict[str, Recipe] = {
    "ppo": {
        "num_envs": 8,
        "evaluation": {"deterministic": False},
        "ppo": {
            "rollout_length": 128,
            "minibatches": 4,
            "learning_rate": 5e-4,
            "entropy": 0.01,
            "normalise_observations": True,
            "normalise_rewards": True,
        },
    },
}

RECIPES: Recipes = {"gameboy-meadow": MEADOW, "gameboy-meadow-pixels": MEADOW_PIXELS, "gameboy-*": ANY_GAME}
