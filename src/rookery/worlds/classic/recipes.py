"""Settings for classic control that are known to work. `benchmarks/learning.py` prints what they reach."""

from __future__ import annotations

from rookery.worlds.world_spec import Recipe, Recipes

CARTPOLE: dict[str, Recipe] = {
    "ppo": {
        "num_envs": 16,
        "steps": 100_000,
        "ppo": {
            "rollout_length": 64,
            "minibatches": 4,
            "epochs": 4,
            "gamma": 0.98,
            "gae_lambda": 0.95,
            "learning_rate": 2e-3,
        },
    },
    "dqn": {
        "num_envs": 8,
        "steps": 50_000,
        "dqn": {"learning_rate": 1e-3, "batch_size": 128, "epsilon_end": 0.04},
    },
}
PENDULUM: dict[str, Recipe] = {
    "ppo": {
        "num_envs": 16,
        "steps": 200_000,
        "ppo": {"rollout_length": 128, "minibatches": 8, "epochs": 10, "gamma": 0.9, "learning_rate": 1e-3},
    },
    "sac": {
        "num_envs": 8,
        "steps": 20_000,
        "sac": {"learning_rate": 1e-3, "updates_per_step": 0.5, "start_steps": 1000, "hidden": [128, 128]},
    },
}
MOUNTAIN_CAR: dict[str, Recipe] = {
    "ppo": {
        "num_envs": 16,
        "steps": 400_000,
        "ppo": {
            "rollout_length": 16,
            "gae_lambda": 0.98,
            "learning_rate": 1e-3,
            "entropy": 0.01,
            "normalise_observations": True,
            "normalise_rewards": True,
        },
    },
}
MOUNTAIN_CAR_CONTINUOUS: dict[str, Recipe] = {
    "sac": {
        "num_envs": 8,
        "steps": 50_000,
        "sac": {
            "noise": "pink",
            "gamma": 0.999,
            "learning_rate": 1e-3,
            "updates_per_step": 0.25,
            "start_steps": 2000,
            "hidden": [64, 64],
            "tau": 0.01,
            "temperature": 0.1,
        },
    },
}
ACROBOT: dict[str, Recipe] = {
    "ppo": {
        "num_envs": 16,
        "steps": 500_000,
        "ppo": {
            "rollout_length": 128,
            "minibatches": 4,
            "epochs": 4,
            "gae_lambda": 0.94,
            "learning_rate": 1e-3,
            "normalise_observations": True,
        },
    },
}

RECIPES: Recipes = {
    "CartPole-v1": CARTPOLE,
    "Pendulum-v1": PENDULUM,
    "Acrobot-v1": ACROBOT,
    "MountainCar-v0": MOUNTAIN_CAR,
    "MountainCarContinuous-v0": MOUNTAIN_CAR_CONTINUOUS,
}
