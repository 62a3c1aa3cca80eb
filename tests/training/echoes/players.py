"""Opponents that always do the same, each something else."""

from __future__ import annotations

import numpy as np


class Quarter:
    def act(self, observation: np.ndarray) -> list[float]:
        return [0.25]


class Half:
    def act(self, observation: np.ndarray) -> list[float]:
        return [0.5]


class Mirror:
    """What it sees at place 2, which belongs to the episode, as its action."""

    def act(self, observation: np.ndarray) -> list[float]:
        return [float(observation[2])]


class Race(Quarter):
    """The same, for the game in theirs.py."""
