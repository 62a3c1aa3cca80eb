"""The random numbers of `Phases.plan_episode` for many episodes at once, on any device: the same numbers, bit for bit.

They are those of NumPy's Philox4x64 with 10 rounds (Salmon et al., 2011): a function of the key (the seed, the env) and
the counter (the episode). torch has no unsigned 64-bit arithmetic, so products are made of halves.
"""

from __future__ import annotations

import torch
from torch import Tensor

MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
ROUNDS = 10
HALF = 0xFFFFFFFF
TO_UNIT = 2.0**-53


def episode_draws(seed: int, envs: Tensor, episodes: Tensor) -> Tensor:
    """Four numbers in [0, 1) for each env and episode, which are broadcast together: [4, ...], in double precision.

    >>> import numpy as np
    >>> key = np.random.Generator(np.random.Philox(key=[7, 2], counter=3))
    >>> bool((episode_draws(7, torch.tensor(2), torch.tensor(3)).numpy() == key.random(4)).all())
    True
    """
    envs, episodes = torch.broadcast_tensors(envs, episodes)
    keys = (torch.full_like(envs, _signed(seed)), envs)
    words = _philox(episodes + 1, keys)  # NumPy counts up before it draws
    return torch.stack([_logical_shift(word, 11).double() * TO_UNIT for word in words])


def _philox(counter: Tensor, keys: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    zero = torch.zeros_like(counter)
    first, second, third, fourth = counter, zero, zero, zero
    for k in range(ROUNDS):
        key_one, key_two = (key + _signed(k * step) for key, step in zip(keys, WEYL, strict=True))
        high_one, low_one = _product(MULTIPLIERS[0], first)
        high_two, low_two = _product(MULTIPLIERS[1], third)
        first, second, third, fourth = high_two ^ second ^ key_one, low_two, high_one ^ fourth ^ key_two, low_one
    return first, second, third, fourth


def _product(constant: int, values: Tensor) -> tuple[Tensor, Tensor]:
    """The high and the low 64 bits of a product of 64-bit numbers."""
    high, low = constant >> 32, constant & HALF
    values_high, values_low = _logical_shift(values, 32), values & HALF
    low_low, high_low, low_high = values_low * low, values_low * high, values_high * low
    middle = _logical_shift(low_low, 32) + (high_low & HALF) + (low_high & HALF)
    above = _logical_shift(high_low, 32) + _logical_shift(low_high, 32) + (middle >> 32)
    return values_high * high + above, values * _signed(constant)


def _logical_shift(values: Tensor, bits: int) -> Tensor:
    """A shift to the right that fills up with zeros."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def _signed(number: int) -> int:
    """The 64 lowest bits of a number as a signed one."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


def pick_many(weights: Tensor, uniform: Tensor) -> Tensor:
    """The indices that uniform random numbers in [0, 1) select by weights: `matchmaking.pick`, for many numbers.

    >>> pick_many(torch.tensor([1.0, 0.0, 3.0]).double(), torch.tensor([0.0, 0.24, 0.26, 0.999]).double()).tolist()
    [0, 0, 2, 2]
    """
    edges = weights.cumsum(0)
    return torch.searchsorted(edges[:-1].contiguous(), uniform * edges[-1], right=True)
