"""A player that takes random actions: the opponent that every agent should beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.training.resolve.seats import Seat

NAME = "random"
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the increment of SplitMix64


class RandomPlayer:
    """Draws each action uniformly from those that are allowed. It depends on the game's seed and the number of the step
    alone, not on the other games in the batch."""

    name = NAME

    def __init__(self, seat: Seat) -> None:
        self._space: Any = seat.action_space
        self._seeds, self._clock = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._begun = 0

    def begin(self, envs: np.ndarray, seeds: Sequence[int] | None = None) -> None:
        envs = np.asarray(envs)
        missing = int(envs.max(initial=-1)) + 1 - len(self._seeds)
        if missing > 0:
            self._seeds, self._clock = (np.pad(x, (0, missing)) for x in (self._seeds, self._clock))
        self._seeds[envs] = np.arange(self._begun, self._begun + len(envs)) if seeds is None else seeds
        self._clock[envs] = 0
        self._begun += len(envs)

    def act(self, observations: Any, envs: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        draws = self._draws(envs, int(np.prod(self._space.shape or ())))
        if isinstance(self._space, spaces.Discrete):
            return _choices(draws[:, 0], int(self._space.n), mask) + self._space.start
        if isinstance(self._space, spaces.MultiDiscrete):
            ends = np.cumsum(self._space.nvec)
            masks = [None] * len(ends) if mask is None else np.split(mask, ends[:-1], axis=1)
            parts = [_choices(draws[:, k], int(n), masks[k]) for k, n in enumerate(self._space.nvec)]
            return np.stack(parts, axis=1).astype(self._space.dtype) + self._space.start
        low = np.where(np.isfinite(self._space.low), self._space.low, -1.0)
        high = np.where(np.isfinite(self._space.high), self._space.high, np.maximum(low, 0.0) + 1.0)
        return (low + draws * (high - low)).astype(self._space.dtype)

    def state(self) -> dict[str, Any]:
        """Everything that decides how its games continue."""
        return {"begun": self._begun, "seeds": self._seeds, "clock": self._clock}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from `state()`."""
        self._begun = state["begun"]
        self._seeds, self._clock = np.array(state["seeds"]), np.array(state["clock"])

    def _draws(self, envs: np.ndarray, count: int) -> np.ndarray:
        """The next uniform numbers in [0, 1) of each game, [envs, count]."""
        at = self._clock[envs, None] * count + np.arange(count)
        self._clock[envs] += 1
        return _uniform(self._seeds[envs, None].astype(np.uint64), at.astype(np.uint64))


def _uniform(seeds: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Numbers in [0, 1), by a seed and a position each: SplitMix64, which mixes all bits of both."""
    with np.errstate(over="ignore"):
        bits = _mixed(_mixed(seeds + GOLDEN) + (at + np.uint64(1)) * GOLDEN)
    return (bits >> np.uint64(11)) * 2.0**-53


def _mixed(bits: np.ndarray) -> np.ndarray:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _choices(draws: np.ndarray, count: int, mask: np.ndarray | None) -> np.ndarray:
    """One of `count` choices in each row, among those that its mask allows; of a row that allows none, any.

    >>> _choices(np.array([0.0, 0.99, 0.5]), 4, np.array([[0, 1, 0, 1], [0, 1, 0, 1], [0, 0, 0, 0]], bool)).tolist()
    [1, 3, 2]
    """
    if mask is None:
        return (draws * count).astype(np.int64)
    allowed = np.where(mask.any(axis=1, keepdims=True), mask, True)
    wanted = (draws * allowed.sum(axis=1)).astype(np.int64)  # the number of the chosen one among the allowed ones
    return np.argmax(np.cumsum(allowed, axis=1) > wanted[:, None], axis=1)
