"""The random numbers of `Phases.plan_episode` for many episodes at once, on any device: the same numbers, bit for bit.

They are those of NumPy's Philox4x64 with 10 rounds (Salmon et al., 2011): a function of the key (the seed, the env) and
the counter (the episode). torch has no unsigned 64-bit arithmetic, so products are made of halves.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.learners.policy import Policy
from rookery.training.resolve.seats import SCRIPTS

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


WORLD_PLAYED = ("", *dict.fromkeys(SCRIPTS.values()))  # by number
POLICIES = len(WORLD_PLAYED)  # the number of the first policy
COPIES = ("self", "latest")  # of the agent, as it will be when a game begins


def code_of(number: int, deterministic: bool) -> int:
    """The code of an opponent with this number."""
    return 2 * number + deterministic


def code_of_copy(kind: str, deterministic: bool) -> int:
    """The code of a copy of the agent for a game that has not begun.

    >>> [code_of_copy(kind, deterministic) for kind in COPIES for deterministic in (False, True)]
    [-1, -2, -3, -4]
    """
    return -1 - code_of(COPIES.index(kind), deterministic)


class RandomStack:
    """Draws each action uniformly from those that are allowed, by other random numbers than the CPU's player."""

    always_samples = True

    def __init__(self, space: spaces.Space, device: torch.device) -> None:
        self._space: Any = space
        self._size = math.prod(space.shape or ())
        self._bounds: tuple[Tensor, Tensor] | None = None
        if isinstance(space, spaces.Box):
            low = np.where(np.isfinite(space.low), space.low, -1.0)
            high = np.where(np.isfinite(space.high), space.high, np.maximum(low, 0.0) + 1.0)
            self._bounds = torch.as_tensor(low, device=device), torch.as_tensor(high - low, device=device)
        else:
            starts = np.atleast_1d(np.asarray(space.start, np.int64))  # type: ignore[attr-defined]
            self._starts = torch.as_tensor(starts, device=device)
            self._counts = np.atleast_1d(getattr(space, "nvec", getattr(space, "n", 0))).tolist()

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        return torch.rand(rows, self._size, generator=generator, device=generator.device)

    def act(self, numbers: Tensor, view: Tensor, mask: Tensor | None, noise: Tensor | None, fixed: Tensor) -> Tensor:
        assert noise is not None
        if self._bounds is not None:
            return self._bounds[0] + noise * self._bounds[1]
        masks = [None] * len(self._counts) if mask is None else mask.split(self._counts, 1)
        chosen = [_choices(noise[:, k], n, masks[k]) for k, n in enumerate(self._counts)]
        return (torch.stack(chosen, 1) + self._starts).reshape(len(noise), *(self._space.shape or ()))

    def put(self, number: int, policy: Policy) -> None:
        """Nothing to do: it has no policy."""

    def begin(self, rows: Tensor) -> None:
        """Nothing to do: it has no memory."""

    def state(self) -> list[Tensor]:
        return []

    def saved(self, number: int) -> dict[str, np.ndarray]:
        return {}

    def load(self, number: int, saved: dict[str, np.ndarray]) -> None:
        """Nothing was saved."""


def _choices(draws: Tensor, count: int, mask: Tensor | None) -> Tensor:
    """One of `count` choices in each row, among those that its mask allows; of a row that allows none, any.

    >>> allowed = torch.tensor([[0, 1, 0, 1], [0, 1, 0, 1], [0, 0, 0, 0]])
    >>> _choices(torch.tensor([0.0, 0.99, 0.5]), 4, allowed).tolist()
    [1, 3, 2]
    """
    if mask is None:
        return (draws * count).long()
    allowed = mask.bool()
    allowed = allowed | ~allowed.any(1, keepdim=True)
    wanted = (draws * allowed.sum(1)).long()  # the number of the chosen one among the allowed ones
    return (allowed.cumsum(1) > wanted[:, None]).int().argmax(1)
