"""Settings that are known to work, by world and learner. `benchmarks/learning.py` prints what they reach on a CPU,
`benchmarks/markets.py` those of markets; `benchmarks/gpu_start.py`, `benchmarks/hockey_gpu.py` and
`benchmarks/mujoco_gpu.py` those on a GPU.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from rookery.worlds.built_in_worlds import ROBOTS
from rookery.worlds.world_spec import Recipe, Recipes


def recipe(learner: str, num_envs: int, steps: int, run: Recipe | None = None, **options: Any) -> dict[str, Recipe]:
    """A recipe for one learner. `run` holds keys of the run beside its length and its number of envs."""
    return {learner: {"num_envs": num_envs, "steps": steps, **(run or {}), learner: options}}


ppo = partial(recipe, "ppo")


def falling(num_envs: int, steps: int, episode_length: int | None = None, **options: Any) -> dict[str, Recipe]:
    """The same with a learning rate that falls to zero: with a constant one the last policy is often not the best."""
    made = ppo(num_envs, steps, **{"learning_rate_schedule": "linear", **options})["ppo"]
    return {"ppo": made if episode_length is None else {**made, "episode_length": episode_length}}


# --- classic control --------------------------------------------------------------------------------------------------

NORMALISED = {"normalise_observations": True, "normalise_rewards": True}
SMALL_XQC: dict[str, Any] = {"hidden": [64, 64], "critic_hidden": [128, 128], "batch_size": 128, "tau": 0.05}
_PQN: dict[str, Any] = {"learning_rate_schedule": "linear", "normalise_rewards": True}
CLASSIC: Recipes = {
    "CartPole-v1": {
        **ppo(
            16, 100_000, rollout_length=64, minibatches=4, epochs=4, gamma=0.98, gae_lambda=0.95, learning_rate=2e-3
        ),
        **recipe("dqn", 8, 50_000, learning_rate=1e-3, batch_size=128, epsilon_end=0.04),
        **recipe(
            "pqn", 32, 60_000, **_PQN, rollout_length=32, minibatches=8, epochs=4, q_lambda=0.95, learning_rate=1e-3,
            epsilon_end=0.2,  # random actions show many states, and evaluations take the best ones
        ),
    },
    "Pendulum-v1": {
        **falling(
            16, 1_000_000, rollout_length=128, minibatches=8, epochs=10, gamma=0.98, learning_rate=1e-3,
            normalise_rewards=True,
        ),
        **recipe("sac", 8, 20_000, learning_rate=1e-3, updates_per_step=0.5, start_steps=1000, hidden=[128, 128]),
        **recipe("xqc", 1, 5_000, **SMALL_XQC, learning_rate=1e-3, gamma=0.95, start_steps=500, policy_delay=1),
    },
    "Acrobot-v1": {
        **falling(
            16, 1_500_000, rollout_length=128, minibatches=4, epochs=8, gae_lambda=0.94, learning_rate=2e-3,
            normalise_observations=True,
        ),
        **recipe(
            "pqn", 16, 200_000, **_PQN, rollout_length=64, minibatches=8, epochs=8, q_lambda=0.9, learning_rate=3e-3,
            hidden=[64, 64], normalise_observations=True, epsilon_fraction=0.05, epsilon_end=0.0,
        ),
    },
    "MountainCar-v0": falling(
        16, 1_500_000, rollout_length=16, gae_lambda=0.98, learning_rate=1e-3, entropy=0.01,
        normalise_observations=True, normalise_rewards=True,
    ),
    # PPO with pink noise: on ten seeds 94.7 to 96.2, in a quarter of the time in which SAC comes to 93.
    "MountainCarContinuous-v0": {
        **falling(
            16, 800_000, noise="pink", rollout_length=1024, minibatches=16, epochs=8, gamma=0.9999, gae_lambda=0.99,
            learning_rate=1e-3, **NORMALISED,
        ),
        **recipe(
            "sac", 8, 50_000, noise="pink", gamma=0.999, learning_rate=1e-3, updates_per_step=0.25, start_steps=2000,
            hidden=[64, 64], tau=0.01, temperature=0.1,
        ),
        **recipe(
            "xqc", 1, 30_000, **SMALL_XQC, noise="pink", gamma=0.999, learning_rate=1e-3, updates_per_step=0.5,
            start_steps=4000,
        ),
    },
}  # fmt: skip

# --- rookery's other worlds -------------------------------------------------------------------------------------------

# On a GPU, 22 of 25 balls after 1.5 million steps, in seconds.
CATCH: Recipes = {
    "catch": {
        **ppo(
            1024, 2_000_000, rollout_length=32, minibatches=4, epochs=4, learning_rate=2.5e-4, hidden=[],
            activation="relu",
        ),
        **recipe(
            "pqn", 1024, 1_000_000, rollout_length=32, minibatches=4, epochs=4, learning_rate=5e-4, hidden=[],
            q_lambda=0.9, epsilon_fraction=0.3, epsilon_end=0.01, learning_rate_schedule="linear",
        ),
    },
}  # fmt: skip
_HOCKEY = ppo(
    128, 5_000_000, {"evaluation": {"episodes": 50}}, rollout_length=64, minibatches=4, epochs=4, learning_rate=1e-3
)
HOCKEY: Recipes = {"hockey": _HOCKEY, "HockeyOne-v0": _HOCKEY}
_MARKET = ppo(
    64, 1_000_000, rollout_length=64, minibatches=8, epochs=4, learning_rate=1e-3, learning_rate_schedule="linear",
    normalise_observations=True,
)  # fmt: skip
MARKETS: Recipes = {"crypto": _MARKET, "perpetuals": _MARKET, "forex": _MARKET, "forex-account": _MARKET}

_SAMPLED = {"evaluation": {"deterministic": False}}  # deterministic actions may walk against a bush for ever
_MEADOW: dict[str, Any] = {
    "rollout_length": 128, "minibatches": 4, "gamma": 0.95, "learning_rate": 1e-3, "entropy": 0.01,
    "normalise_rewards": True,
}  # fmt: skip
_MEADOW_PIXELS = {
    **_MEADOW, "learning_rate": 5e-4, "learning_rate_schedule": "linear", "epochs": 3, "normalise_observations": True,
}  # fmt: skip
GAME_BOY: Recipes = {
    "gameboy-meadow": ppo(8, 300_000, _SAMPLED, **_MEADOW),
    "gameboy-meadow-pixels": ppo(8, 500_000, _SAMPLED, **_MEADOW_PIXELS),
    # A game whose profile a user wrote: its rewards may be of any size, and most of its screen is scenery.
    "gameboy-*": {
        "ppo": {
            "num_envs": 8,
            **_SAMPLED,
            "ppo": {
                "rollout_length": 128, "minibatches": 4, "learning_rate": 5e-4, "entropy": 0.01,
                "normalise_observations": True, "normalise_rewards": True,
            },
        },
    },
}  # fmt: skip

# What replaces parts of a recipe where the world's compiled version is used, whose envs cost little. With 8 envs the
# door opens in all episodes after four times as long.
COMPILED: Recipes = {"gameboy-meadow": ppo(128, 300_000, rollout_length=64, minibatches=8)}

# --- Atari games ------------------------------------------------------------------------------------------------------

# PPO: CleanRL's ppo_atari with more envs. DQN: CleanRL's dqn_atari with more envs and this DQN's improvements; the
# target network is copied every 8,000 steps, as in Rainbow (Hessel et al., 2018). PQN: as in the paper (Gallici et al.,
# 2024), for a fifth of its steps; a layer-normalised layer follows the convolutions, which have no such layers here.
_ATARI = {
    **ppo(
        64, 10_000_000, _SAMPLED, rollout_length=64, batch_size=512, epochs=4, learning_rate=2.5e-4,
        learning_rate_schedule="linear", clip=0.1, entropy=0.01, hidden=[], activation="relu",
    ),
    **recipe(
        "dqn", 16, 10_000_000, _SAMPLED, learning_rate=1e-4, batch_size=32, buffer_size=1_000_000, start_steps=80_000,
        tau=1.0, target_every=2000, epsilon_end=0.01, epsilon_steps=1_000_000, importance_steps=10_000_000,
        hidden=[512], activation="relu",
    ),
    **recipe(
        "pqn", 128, 10_000_000, _SAMPLED, rollout_length=32, minibatches=32, epochs=2, q_lambda=0.65,
        learning_rate=2.5e-4, learning_rate_schedule="linear", epsilon_fraction=0.1, epsilon_end=0.001, hidden=[512],
    ),
}  # fmt: skip
ATARI: Recipes = {"ALE-*-v5": _ATARI, "*NoFrameskip-v[04]": _ATARI}

# --- Gymnasium's tasks, in minutes on two cores: toy text, one-hot states, cheap steps --------------------------------

FROZEN_LAKE = falling(8, 200_000, rollout_length=128, learning_rate=1e-3, entropy=0.01)
FROZEN_LAKE_8X8 = falling(8, 500_000, rollout_length=128, learning_rate=1e-3, entropy=0.01, gamma=0.995)
BLACKJACK = falling(16, 400_000, rollout_length=128, learning_rate=1e-3, entropy=0.01)
TAXI = falling(
    16, 800_000, rollout_length=128, minibatches=8, learning_rate=1e-3, entropy=0.03, normalise_rewards=True
)  # fmt: skip
# Episodes have no limit of their own, and a policy that walks against a wall would never end one. The path along the
# cliff is two steps shorter than the next one: a short horizon of the advantages (0.8) found it with 5 seeds of 5,
# 0.95 with 4.
CLIFF_WALKING = falling(
    8, 300_000, episode_length=200, rollout_length=128, epochs=8, learning_rate=2e-3, entropy=0.01, gae_lambda=0.8,
    normalise_rewards=True,
)  # fmt: skip

# --- Box2D ------------------------------------------------------------------------------------------------------------

LUNAR_LANDER = {
    **falling(
        16, 1_000_000, rollout_length=1024, batch_size=64, gamma=0.999, gae_lambda=0.98, entropy=0.01,
        learning_rate_schedule="constant",
    ),
    **recipe(
        "pqn", 32, 600_000, **_PQN, rollout_length=64, minibatches=8, epochs=4, q_lambda=0.9, learning_rate=1e-3,
        normalise_observations=True, epsilon_fraction=0.2, epsilon_end=0.02,
    ),
}  # fmt: skip

# --- MuJoCo, and BipedalWalker, which is like it ----------------------------------------------------------------------

LARGE_BATCHES: dict[str, Any] = {
    "rollout_length": 256, "batch_size": 256, "epochs": 10, "learning_rate": 1e-3, **NORMALISED,
}  # fmt: skip
# Many small updates, which end before the policy has moved far. Without `target_kl` some runs fell from 5,000 to 300.
SMALL_BATCHES: dict[str, Any] = {
    "rollout_length": 256, "batch_size": 64, "epochs": 10, "target_kl": 0.02, **NORMALISED,
}  # fmt: skip
LESS_NOISE: dict[str, Any] = {"log_std": -1.0, "entropy": 0.0004}

# As the paper has it for episodes of 1,000 steps: two updates per step, and learning rates that fall to a tenth.
XQC_ROBOT = recipe(
    "xqc", 4, 1_000_000, gamma=0.995, start_steps=5000, updates_per_step=2.0,
    learning_rate_schedule="1 - 0.9 * progress",
)  # fmt: skip

HALF_CHEETAH = {**falling(8, 1_000_000, **SMALL_BATCHES, **LESS_NOISE, gamma=0.98, gae_lambda=0.92), **XQC_ROBOT}
WALKING = {**falling(8, 1_000_000, **SMALL_BATCHES), **XQC_ROBOT}
BALANCING = falling(8, 500_000, **LARGE_BATCHES)
REACHING = falling(8, 500_000, **LARGE_BATCHES, gamma=0.9)
SWIMMER = falling(8, 1_000_000, **LARGE_BATCHES, gamma=0.9999, gae_lambda=0.98)
BIPEDAL_WALKER = falling(8, 2_000_000, **LARGE_BATCHES, gamma=0.999)
LARGE_BODIES = {**falling(8, 3_000_000, **SMALL_BATCHES, **LESS_NOISE), **XQC_ROBOT}
# Without the 78 contact forces, which Ant-v4 does not observe either: once they are normalised, they hide the other 27
# numbers. After 60,000 steps of XQC, five seeds returned 1,102 to 4,825 without them, and 496 to 1,948 with them; after
# 400,000 steps of PPO, two seeds returned 2,489 and 1,805, and 1,866 and 1,613.
CONTACT_FORCES = "include_cfrc_ext_in_observation"
ANT = {name: {**known, "world_options": {CONTACT_FORCES: False}} for name, known in LARGE_BODIES.items()}

GYMNASIUM: Recipes = {
    "FrozenLake-v*": FROZEN_LAKE,
    "FrozenLake8x8-v*": FROZEN_LAKE_8X8,
    "Blackjack-v*": BLACKJACK,
    "Taxi-v*": TAXI,
    "CliffWalking*-v*": CLIFF_WALKING,
    "LunarLander*-v*": LUNAR_LANDER,
    "BipedalWalker*-v*": BIPEDAL_WALKER,
    "HalfCheetah-v*": HALF_CHEETAH,
    "Hopper-v*": WALKING,
    "Walker2d-v*": WALKING,
    "Swimmer-v*": SWIMMER,
    "Inverted*Pendulum-v*": BALANCING,
    "Reacher-v*": REACHING,
    "Pusher-v*": BALANCING,
    "Ant-v5": ANT,
    "Ant-v*": LARGE_BODIES,
    "Humanoid*-v*": LARGE_BODIES,
}

# --- on a GPU: what differs where the whole run is there --------------------------------------------------------------

# More envs, and more steps, which cost little. They count only where the user gave neither `num_envs` nor the length of
# the run: these settings belong together.
_CLASSIC_ON_GPU: dict[str, Any] = {
    "rollout_length": 32, "minibatches": 8, "learning_rate": 3e-3, "learning_rate_schedule": "linear",
}  # fmt: skip
ROBOT_ON_GPU = {
    **ppo(4096, 20_000_000, rollout_length=32, batch_size=4096, epochs=4, learning_rate=1e-3),
    # Few updates for each step, as FlashSAC has them (2026), but small ones. With 8 updates of 1,024 transitions a
    # round, two million steps of Walker2d returned 375 for `n_step` = 1 and 3,853 for 3.
    **recipe(
        "xqc", 1024, 2_000_000, updates_each="round", updates_per_step=16.0, batch_size=256, n_step=3, gamma=0.99,
        learning_rate=1e-3, buffer_size=2_000_000, start_steps=20_000,
    ),
}  # fmt: skip
ON_GPU: Recipes = {
    "CartPole-v1": ppo(2048, 2_600_000, **_CLASSIC_ON_GPU),
    "Acrobot-v1": ppo(2048, 4_000_000, **_CLASSIC_ON_GPU),
    "hockey": ppo(
        16_384, 100_000_000, rollout_length=32, minibatches=16, learning_rate=1e-3, learning_rate_schedule="linear",
        normalise_observations=True, entropy=0.005,
    ),
    "catch": ppo(1024, 2_000_000, rollout_length=32),
    "gameboy-meadow": ppo(512, 720_000, rollout_length=32, minibatches=8),
    # Many small updates: with 8 minibatches of 2,048 the door stayed shut.
    "gameboy-meadow-pixels": ppo(512, 1_000_000, rollout_length=16, minibatches=16),
    **{f"{name}-v5": ROBOT_ON_GPU for name in ROBOTS},
    "Ant-v5": {**ROBOT_ON_GPU, "ppo": {**ROBOT_ON_GPU["ppo"], "world_options": {CONTACT_FORCES: True}}},  # as measured
}  # fmt: skip
# A kernel world without a recipe.
USUAL_ON_GPU: Recipe = {"num_envs": 1024, "steps": 20_000_000, "ppo": {"rollout_length": 32}}
