"""Worlds on a GPU against the same worlds on the CPU, step by step: `python benchmarks/gpu_worlds.py [--fresh]`

Prints for each world the largest difference of observations and rewards, how many ends of episodes differ, and whether
Numba was imported: the second start of the same world reads the compiled GPU code from disk and needs no compiler.
`--fresh` begins with an empty cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

FOREX = {"columns": ("close", "rsi_14"), "lookback": 10}
WORLDS: dict[str, dict[str, Any]] = {
    "rookery/CartPole-v1": {},
    "rookery/Pendulum-v1": {},
    "rookery/Acrobot-v1": {},
    "rookery/HockeyOne-v0": {"opponent": "strong"},
    "rookery/Hockey-v0": {},
    "rookery/Forex-v0": FOREX,
}
NUM_ENVS, STEPS = 512, 60


def compare(world: str, options: dict[str, Any]) -> None:
    """Both backends with the same actions."""
    started = time.perf_counter()
    import torch

    import rookery

    gpu = rookery.make_vec(world, NUM_ENVS, backend="cuda", env_kwargs=options)
    observations = gpu.reset(seed=3)[0].cpu().numpy()
    actions = _actions(gpu)
    seen, outcomes = [observations], []
    for step in actions:
        result = gpu.step(torch.from_numpy(step).cuda())
        seen.append(result[0].cpu().numpy())
        outcomes.append([part.cpu().numpy() for part in result[1:4]])
    seconds, numba = time.perf_counter() - started, "numba" in sys.modules
    cpu = rookery.make_vec(world, NUM_ENVS, backend="kernel", env_kwargs=options)
    worst, ends = _difference(cpu.reset(seed=3)[0], seen[0]), 0
    for step, observations, (rewards, terminated, truncated) in zip(actions, seen[1:], outcomes, strict=True):
        result = cpu.step(step)
        worst = max(worst, _difference(result[0], observations), _difference(result[1], rewards))
        ends += int((result[2] != terminated).sum() + (result[3] != truncated).sum())
    print(f"{world}: worst difference {worst:.3g}, ends that differ {ends}, {seconds:.2f} s, Numba imported: {numba}")


def _actions(envs: Any) -> list[np.ndarray]:
    """Actions drawn from the space; small ones where they are continuous, so that hockey's games stay comparable."""
    space, rng = envs.single_action_space, np.random.default_rng(0)
    if space.shape == ():
        return [rng.integers(0, int(space.n), envs.num_envs) for _ in range(STEPS)]
    shape = (envs.num_envs, *space.shape)
    return [(0.05 * rng.uniform(-1, 1, shape)).astype(np.float32) for _ in range(STEPS)]


def _difference(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max())


def main() -> int:
    """Each world in two processes, one after the other."""
    if len(sys.argv) > 1 and sys.argv[1] in WORLDS:
        compare(sys.argv[1], WORLDS[sys.argv[1]])
        return 0
    with tempfile.TemporaryDirectory() as empty:
        cache = {"ROOKERY_CACHE": empty} if "--fresh" in sys.argv else {}
        commands = [[sys.executable, __file__, world] for world in WORLDS for _ in range(2)]
        codes = [subprocess.run(command, env={**os.environ, **cache}).returncode for command in commands]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
