"""Seeds: `reset(seed=s)` gives env i the seed `s + i`, as Gymnasium's vector envs do, on every backend.

With `s + i`, two runs with close seeds share the streams of most of their envs. A run therefore passes `ChildSeeds`:
children of a `SeedSequence` are never neighbours of one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rookery.errors import OptionError


def child_seed(root: int, *key: int) -> int:
    """The seed of a descendant of `root`: 31 bits, because many envs pass their seed to C code as an int."""
    return int(np.random.SeedSequence(root, spawn_key=key).generate_state(1, np.uint32)[0] >> 1)


class ChildSeeds(list[int]):
    """One seed for each of `count` envs: the children of `root`, from which restarted envs get further seeds. `first`
    is the number of the first env, where others are in other processes."""

    def __init__(self, root: int, count: int, first: int = 0) -> None:
        super().__init__(child_seed(root, i) for i in range(first, first + count))
        self.root = root

    @classmethod
    def of(cls, root: int, envs: Any, rank: int = 0) -> ChildSeeds:
        """For the envs of an engine, whose rows may be several agents of one env each; `rank` is that of its process
        among those with as many envs."""
        count = getattr(envs, "num_worlds", envs.num_envs)
        return cls(root, count, rank * count)


def root_of(seed: Any) -> int | None:
    """The seed that restarted envs derive theirs from: an integer, or the root of `ChildSeeds`."""
    if isinstance(seed, (int, np.integer)):
        return int(seed)
    return seed.root if isinstance(seed, ChildSeeds) else None


def env_seeds(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    """What each env's `reset(seed=...)` receives: seed + i, or its own entry of a list, unchanged."""
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, (int, np.integer)):
        if seed < 0:
            raise OptionError(f"seed should be a non-negative integer, got {seed}")
        return [int(seed) + i for i in range(num_envs)]
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
