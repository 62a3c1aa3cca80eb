"""What differs from a world's recipe where the whole run is on a GPU: more envs, and more steps, which cost little.

They count only where the user gave neither `num_envs` nor the length of the run: these settings belong together.
`benchmarks/gpu_start.py` prints how long CartPole's takes, `benchmarks/hockey_gpu.py` hockey's, and
`benchmarks/mujoco_gpu.py` those of robots.
"""

from __future__ import annotations

from rookery.worlds.mujoco.mujoco_spec import NAMES as MUJOCO_NAMES
from rookery.worlds.world_spec import Recipe, Recipes

CARTPOLE = {
    "ppo": {
        "num_envs": 2048,
        "steps": 2_600_000,
        "ppo": {"rollout_length": 32, "minibatches": 8, "learning_rate": 3e-3, "learning_rate_schedule": "linear"},
    },
}
ACROBOT = {
    "ppo": {
        "num_envs": 2048,
        "steps": 4_000_000,
        "ppo": {"rollout_length": 32, "minibatches": 8, "learning_rate": 3e-3, "learning_rate_schedule": "linear"},
    },
}
HOCKEY = {
    "ppo": {
        "num_envs": 16_384,
        "steps": 100_000_000,
        "ppo": {
            "rollout_length": 32,
            "minibatches": 16,
            "learning_rate": 1e-3,
            "learning_rate_schedule": "linear",
            "normalise_observations": True,
            "entropy": 0.005,
        },
    },
}
ROBOT = {
    "ppo": {
        "num_envs": 4096,
        "steps": 20_000_000,
        "ppo": {"rollout_length": 32, "batch_size": 4096, "epochs": 4, "learning_rate": 1e-3},
    },
}
CATCH = {"ppo": {"num_envs": 1024, "steps": 2_000_000, "ppo": {"rollout_length": 32}}}
RECIPES: Recipes = {
    "CartPole-v1": CARTPOLE,
    "Acrobot-v1": ACROBOT,
    "hockey": HOCKEY,
    "catch": CATCH,
    **{f"{name}-v5": ROBOT for name in MUJOCO_NAMES},
}
# A kernel world without a recipe.
USUAL: Recipe = {"num_envs": 1024, "steps": 20_000_000, "ppo": {"rollout_length": 32}}
