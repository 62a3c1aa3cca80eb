"""Settings for hockey that are known to work. `benchmarks/learning.py` prints what they reach."""

from __future__ import annotations

from rookery.worlds.world_spec import Recipe

HOCKEY: dict[str, Recipe] = {
    "ppo": {
        "num_envs": 128,
        "steps": 5_000_000,
        "evaluation": {"episodes": 50},
        "ppo": {"rollout_length": 64, "minibatches": 4, "epochs": 4, "learning_rate": 1e-3},
    },
}
RECIPES = {"hockey": HOCKEY, "HockeyOne-v0": HOCKEY}
