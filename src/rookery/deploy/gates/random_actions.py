"""Random actions in any action space: the floor that the first champion has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from rookery.training.players.file_player import RandomPlayer
from rookery.training.resolve.seats import Seat


class RandomActions:
    """Acts in evaluation episodes as an `AgentPlayer` does. An episode's actions depend on its seed alone."""

    name = "random actions"

    def __init__(self, action_space: spaces.Space) -> None:
        self.action_space = action_space
        plain = isinstance(action_space, (spaces.Discrete, spaces.MultiDiscrete, spaces.Box))
        self._fast = RandomPlayer(Seat(action_space, action_space)) if plain else None
        self._by_row: dict[int, spaces.Space] = {}

    def begin(self, envs: np.ndarray, seeds: Sequence[int] | None = None) -> None:
        if self._fast is not None:
            return self._fast.begin(envs, seeds)
        for row, seed in zip(np.asarray(envs).tolist(), seeds or range(len(envs)), strict=True):
            self._by_row[row] = deepcopy(self.action_space)
            self._by_row[row].seed(seed)
        return None

    def act(self, observations: Any, envs: np.ndarray, mask: np.ndarray | None = None) -> Any:
        if self._fast is not None:
            return self._fast.act(observations, envs, mask)
        drawn = [self._by_row[row].sample() for row in np.asarray(envs).tolist()]
        batch: Any = create_empty_array(self.action_space, len(drawn))
        return concatenate(self.action_space, drawn, batch)
