"""Random numbers for kernel worlds: a function of (the env's seed, the episode, the number of earlier draws).

There is no other state, so an env draws the same numbers in a batch of any size, on any thread, on any device.
The generator is Philox2x32 with 10 rounds: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011. All
arithmetic stays within 64 bits, so it runs unchanged in plain Python, where nothing wraps around.
"""

import math
from typing import Any

import numpy as np

MULTIPLIER = np.uint64(0xD256D193)
WEYL = np.uint64(0x9E3779B9)
WORD = np.uint64(0xFFFFFFFF)
WORD_BITS = np.uint64(32)
SPARE_BITS = np.uint64(11)  # of 64 bits, a double keeps 53
TO_UNIT = 2.0**-53
TINY = 2.0**-60
EMPTY_RANGE = 3  # a `stage` of an env, besides those in env_loop.py


def philox(key: Any, first: Any, second: Any) -> Any:
    """64 random bits for a 32-bit key and a counter of two 32-bit words, all given and returned as uint64."""
    for _ in range(10):
        product = first * MULTIPLIER
        first = (product >> WORD_BITS) ^ key ^ second
        second = product & WORD
        key = (key + WEYL) & WORD
    return (first << WORD_BITS) | second


def random_bits(state: Any) -> Any:
    """The next 64 random bits of this env."""
    bits = philox(np.uint64(state.seed), np.uint64(state.draws), np.uint64(state.episode))
    state.draws += 1
    return bits


def uniform(state: Any, low: float, high: float) -> float:
    """A number from the uniform distribution over [low, high)."""
    return low + (high - low) * (float(random_bits(state) >> SPARE_BITS) * TO_UNIT)


def normal(state: Any, mean: float, std: float) -> float:
    """A number from a normal distribution with this mean and standard deviation."""
    radius = math.sqrt(-2.0 * math.log(uniform(state, 0.0, 1.0) + TINY))
    return mean + std * radius * math.cos(uniform(state, 0.0, 2.0 * math.pi))


def integer(state: Any, low: int, high: int) -> int:
    """An integer from the uniform distribution over low, low + 1, ..., high - 1."""
    if high <= low:
        refuse_empty_range(state, low, high)
        return low
    return low + int(uniform(state, 0.0, 1.0) * (high - low))


def refuse_empty_range(state: Any, low: int, high: int) -> None:
    """In plain Python: raise at the calling line."""
    raise ValueError(f"integer(state, {low}, {high}) has an empty range: {high} should be above {low}")


def mark_empty_range(state: Any, low: int, high: int) -> None:
    """In compiled code, which cannot raise on a GPU: mark the env. The loop checks the mark after the step."""
    state.stage = EMPTY_RANGE
