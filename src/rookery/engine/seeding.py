"""Seeds: env i gets the i-th child of `SeedSequence(seed)`, whatever the backend and the number of workers.

Children are never neighbours of one another (`seed + i` shares streams between runs with close seeds).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from rookery.errors import OptionError


def child_seed(root: int, *key: int) -> int:
    """The seed of a descendant of `root`: 31 bits, because many envs pass their seed to C code as an int."""
    return int(np.random.SeedSequence(root, spawn_key=key).generate_state(1, np.uint32)[0] >> 1)


def env_seeds(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    """What each env's `reset(seed=...)` receives."""
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, (int, np.integer)):
        if seed < 0:
            raise OptionError(f"seed should be a non-negative integer, got {seed}")
        return [child_seed(int(seed), i) for i in range(num_envs)]
    if isinstance(seed, str) or not isinstance(seed, Iterable):
        raise OptionError(f"seed should be a non-negative integer, a list with one for each env, or None, got {seed!r}")
    seeds = list(seed)
    if len(seeds) != num_envs:
        raise OptionError(f"seed as a list should have one entry for each of the {num_envs} envs, got {len(seeds)}")
    for i, s in enumerate(seeds):
        if s is not None and not (isinstance(s, (int, np.integer)) and s >= 0):
            raise OptionError(f"seed[{i}] should be a non-negative integer or None, got {s!r}")
    return [None if s is None else int(s) for s in seeds]


def fresh_entropy() -> int:
    """A root seed for envs without one, so that they differ from each other and between runs."""
    return int(np.random.SeedSequence().generate_state(1, np.uint32)[0])
