"""The opponent that takes random actions, on a device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.learners.policy import Policy


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
