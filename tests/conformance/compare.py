"""Trajectories: recording them, and comparing them to the last bit."""

from __future__ import annotations

import numpy as np


def record(envs, steps=40, seed=11, actions_seed=3):
    """Everything that comes back from a reset and `steps` steps with drawn actions."""
    envs.action_space.seed(actions_seed)
    trajectory = [envs.reset(seed=seed)]
    for _ in range(steps):
        trajectory.append(envs.step(envs.action_space.sample()))
    return trajectory


def same(a, b) -> bool:
    """Whether two results are equal to the last bit, in value, type and shape."""
    if isinstance(a, np.ndarray) and a.dtype != object:
        if not isinstance(b, np.ndarray) or a.dtype != b.dtype or a.shape != b.shape:
            return False
        return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.shape == b.shape and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)
