"""What is known to work: tuned configurations for known worlds, by world and learner.

Anything the user gives wins over these. `benchmarks/learning.py` prints what they reach.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

Recipe = dict[str, Any]

CARTPOLE = {
    "ppo": {
        "num_envs": 16,
        "steps": 100_000,
        "ppo": {
            "rollout_length": 64,
            "minibatches": 4,
            "epochs": 8,
            "gamma": 0.98,
            "gae_lambda": 0.95,
            "learning_rate": 1e-3,
        },
    },
    "dqn": {
        "num_envs": 8,
        "steps": 50_000,
        "dqn": {"learning_rate": 1e-3, "batch_size": 128, "epsilon_end": 0.04},
    },
}
PENDULUM = {
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
MOUNTAIN_CAR = {
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
MOUNTAIN_CAR_CONTINUOUS = {
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
ACROBOT = {
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
HOCKEY = {
    "ppo": {
        "num_envs": 128,
        "steps": 5_000_000,
        "evaluation": {"episodes": 50},
        "ppo": {"rollout_length": 64, "minibatches": 4, "epochs": 4, "learning_rate": 1e-3},
    },
}

MEADOW = {
    "ppo": {
        "num_envs": 8,
        "steps": 300_000,
        # Its likeliest actions alone may walk against a bush for ever.
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
MEADOW_PIXELS = {
    "ppo": {
        **MEADOW["ppo"],
        "steps": 500_000,
        "ppo": {
            **MEADOW["ppo"]["ppo"],  # type: ignore[dict-item]
            "learning_rate": 5e-4,
            "learning_rate_schedule": "linear",
            "epochs": 3,
            "normalise_observations": True,
        },
    },
}

# Of a game whose profile a user wrote: its rewards may be of any size, and its screen is mostly scenery.
ANY_GAME: Recipe = {
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
}

RECIPES: dict[str, dict[str, Recipe]] = {
    "CartPole-v1": CARTPOLE,
    "Pendulum-v1": PENDULUM,
    "Acrobot-v1": ACROBOT,
    "MountainCar-v0": MOUNTAIN_CAR,
    "MountainCarContinuous-v0": MOUNTAIN_CAR_CONTINUOUS,
    "hockey": HOCKEY,
    "HockeyOne-v0": HOCKEY,
    "gameboy-meadow": MEADOW,
    "gameboy-meadow-pixels": MEADOW_PIXELS,
}
KERNEL_ENVS = {"ppo": 64, "sac": 4, "dqn": 4}  # of kernel worlds without a recipe


def recipe_for(world: str, learner: str, kernel: bool) -> Recipe:
    """What to take for a world (by its short name) unless the user says otherwise."""
    known = RECIPES.get(world.removeprefix("rookery/"), {}).get(learner)
    if known is None and world.startswith("gameboy-") and learner == "ppo":
        known = ANY_GAME
    if known is not None:
        return deepcopy(known)
    return {"num_envs": KERNEL_ENVS[learner]} if kernel else {}


def usual_learner(world: str) -> str | None:
    """The learner that a known world is usually given to: the first of its recipes."""
    return next(iter(RECIPES.get(world.removeprefix("rookery/"), {})), None)
