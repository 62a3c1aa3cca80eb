"""Settings for Gymnasium's toy text, Box2D and MuJoCo tasks that are known to work with PPO, in minutes on two cores.

`benchmarks/learning.py` prints what they reach. The learning rate falls to zero in all of them: with a constant one the
last policy is often not the best.
"""

from __future__ import annotations

from typing import Any

from rookery.worlds.world_spec import Recipe, Recipes


def ppo(num_envs: int, steps: int, episode_length: int | None = None, **options: Any) -> dict[str, Recipe]:
    """A recipe for PPO alone."""
    recipe: Recipe = {"num_envs": num_envs, "steps": steps, "ppo": {"learning_rate_schedule": "linear", **options}}
    return {"ppo": recipe if episode_length is None else {**recipe, "episode_length": episode_length}}


# --- toy text: one-hot states, cheap steps ----------------------------------------------------------------------------

FROZEN_LAKE = ppo(8, 200_000, rollout_length=128, learning_rate=1e-3, entropy=0.01)
FROZEN_LAKE_8X8 = ppo(8, 500_000, rollout_length=128, learning_rate=1e-3, entropy=0.01, gamma=0.995)
BLACKJACK = ppo(16, 400_000, rollout_length=128, learning_rate=1e-3, entropy=0.01)
TAXI = ppo(
    16, 800_000, rollout_length=128, minibatches=8, learning_rate=1e-3, entropy=0.03, normalise_rewards=True
)  # fmt: skip
# Episodes have no limit of their own, and a policy that walks against a wall would never end one. The path along the
# cliff is two steps shorter than the next one: a short horizon of the advantages (0.8) found it with 5 seeds of 5,
# 0.95 with 4.
CLIFF_WALKING = ppo(
    8, 300_000, episode_length=200, rollout_length=128, epochs=8, learning_rate=2e-3, entropy=0.01, gae_lambda=0.8,
    normalise_rewards=True,
)  # fmt: skip

# --- Box2D ------------------------------------------------------------------------------------------------------------

LUNAR_LANDER = ppo(
    16, 1_000_000, rollout_length=1024, batch_size=64, gamma=0.999, gae_lambda=0.98, entropy=0.01,
    learning_rate_schedule="constant",
)  # fmt: skip

# --- MuJoCo, and BipedalWalker, which is like it ----------------------------------------------------------------------

NORMALISED = {"normalise_observations": True, "normalise_rewards": True}
LARGE_BATCHES: dict[str, Any] = {
    "rollout_length": 256, "batch_size": 256, "epochs": 10, "learning_rate": 1e-3, **NORMALISED,
}  # fmt: skip
# Many small updates, which end before the policy has moved far. Without `target_kl` some runs fell from 5,000 to 300.
SMALL_BATCHES: dict[str, Any] = {
    "rollout_length": 256, "batch_size": 64, "epochs": 10, "target_kl": 0.02, **NORMALISED,
}  # fmt: skip
LESS_NOISE: dict[str, Any] = {"log_std": -1.0, "entropy": 0.0004}

HALF_CHEETAH = ppo(8, 1_000_000, **SMALL_BATCHES, **LESS_NOISE, gamma=0.98, gae_lambda=0.92)
WALKING = ppo(8, 1_000_000, **SMALL_BATCHES)
BALANCING = ppo(8, 500_000, **LARGE_BATCHES)
REACHING = ppo(8, 500_000, **LARGE_BATCHES, gamma=0.9)
SWIMMER = ppo(8, 1_000_000, **LARGE_BATCHES, gamma=0.9999, gae_lambda=0.98)
BIPEDAL_WALKER = ppo(8, 2_000_000, **LARGE_BATCHES, gamma=0.999)
LARGE_BODIES = ppo(8, 3_000_000, **SMALL_BATCHES, **LESS_NOISE)

RECIPES: Recipes = {
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
    "Ant-v*": LARGE_BODIES,
    "Humanoid*-v*": LARGE_BODIES,
}
