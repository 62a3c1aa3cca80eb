"""Learners that see the same steps: what `test_captured_ppo.py` compares on a CPU, and a script on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rookery.learners.algorithms.ppo import PPO
from rookery.learners.learner import StepBatch, TensorFinals
from rookery.learners.registry import make_learner, option_classes

VECTOR = spaces.Box(-5, 5, (4,), np.float32)
IMAGE = spaces.Box(0, 255, (24, 26, 2), np.uint8)
HYBRID = spaces.Dict(arm=spaces.Discrete(3, start=1), force=spaces.Box(-2, 2, (2,), np.float32))
KINDS: dict[str, tuple[spaces.Space, spaces.Space, dict[str, Any]]] = {
    "image": (IMAGE, spaces.Discrete(3), {"hidden": []}),
    "normalised": (IMAGE, spaces.Discrete(3), {"normalise_observations": True, "normalise_rewards": True}),
    "dict": (
        spaces.Dict(screen=IMAGE, place=VECTOR, kind=spaces.Discrete(3)),
        spaces.MultiDiscrete([2, 3]),
        {"hidden": [16], "clip_values": 0.2},
    ),
    "recurrent": (VECTOR, spaces.Discrete(2), {"recurrent": 6, "hidden": [8]}),
    "shared": (VECTOR, spaces.Box(-1, 1, (3,), np.float32), {"share_weights": True, "asset_columns": [1, 1]}),
    "composite": (VECTOR, HYBRID, {"hidden": [8, 8], "entropy": 0.01}),
    "pqn": (VECTOR, spaces.MultiDiscrete([2, 3]), {"learner": "pqn", "hidden": [16, 8], "normalise_rewards": True}),
    "pqn_image": (IMAGE, spaces.Discrete(3), {"learner": "pqn", "hidden": [16]}),
    "stopped": (VECTOR, spaces.Discrete(2), {"hidden": [8], "target_kl": 0.002, "learning_rate": 3e-3}),
}


def make(kind: str, device: str, envs: int, steps: int, **options: Any) -> Any:
    """A learner of one of the kinds, PPO unless it says otherwise."""
    observations, actions, own = KINDS[kind]
    options = {"rollout_length": steps, "epochs": 3, "minibatches": 2, **own, **options}
    name = options.pop("learner", "ppo")
    return make_learner(name, observations, actions, option_classes()[name](**options), envs, seed=3, device=device)


def samples(space: spaces.Space, random: np.random.Generator, envs: int) -> Any:
    """A batch of a space's elements, as arrays."""
    if isinstance(space, spaces.Dict):
        return {key: samples(part, random, envs) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return random.integers(0, space.n, envs)
    if space.dtype == np.uint8:
        return random.integers(0, 256, (envs, *space.shape), dtype=np.uint8)
    return random.normal(size=(envs, *space.shape)).astype(np.float32)


def as_tensors(tree: Any, device: torch.device) -> Any:
    if isinstance(tree, dict):
        return {key: as_tensors(part, device) for key, part in tree.items()}
    return torch.from_numpy(tree).to(device)


def fill(ppo: PPO, seed: int) -> None:
    """A rollout whose observations and outcomes depend on the seed alone."""
    random, rows = np.random.default_rng(seed), slice(0, ppo.num_envs)
    space = ppo.agent.observation_space

    def observations() -> Any:
        return as_tensors(samples(space, random, ppo.num_envs), ppo.device)

    seen = observations()
    for _ in range(ppo.rollout.length):
        ppo.explore(seen, rows)
        rewards, terminated, truncated = (
            torch.from_numpy(part).to(ppo.device)
            for part in (
                random.normal(size=ppo.num_envs).astype(np.float32),
                *(random.random((2, ppo.num_envs)) < 0.2),
            )
        )
        seen = observations()
        finals = TensorFinals(terminated | truncated, observations())
        ppo.record(rows, StepBatch(seen, rewards, terminated, truncated, finals))
