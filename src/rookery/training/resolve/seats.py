"""A seat at a game for two: what one of the players sees and does.

A *duel* is an env in which one row holds both players. Observations and rewards are the first player's, the other's
view is in `infos["obs_agent_two"]`, the action space holds both players' actions one after the other, and the last info
of a game says in `winner` (-1, 0, 1) whether the first player won.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gymnasium import spaces

from rookery.worlds import registry

SCRIPTS = {"none": "none", "weak": "weak", "basic_weak": "weak", "strong": "strong", "basic_strong": "strong"}
VIEW = "obs_agent_two"  # the info in which a game for two shows what the second player sees


@dataclass(frozen=True)
class Seat:
    """What one of two players sees and does."""

    observation_space: spaces.Space
    action_space: spaces.Space

    @property
    def nothing(self) -> np.ndarray:
        """The action of who stands still: zeros, or the first choice."""
        start = getattr(self.action_space, "start", 0)
        return np.zeros(self.action_space.shape or (), self.action_space.dtype) + start

    def in_numbers(self, action_space: spaces.Space) -> np.ndarray | None:
        """A game's discrete actions as the continuous ones of this seat, one row each, so that an agent that has them
        can meet agents with continuous actions. None if no known game has both of these action spaces."""
        return registry.action_table(self.observation_space, self.action_space, action_space)


def seat_of(observation_space: spaces.Space, action_space: spaces.Space) -> Seat | None:
    """One player's half of a duel's spaces; None if they cannot be halved.

    >>> seat_of(spaces.Discrete(3), spaces.MultiDiscrete([8, 8])).action_space
    Discrete(8)
    """
    if not isinstance(action_space, (spaces.Box, spaces.MultiDiscrete)) or len(action_space.shape) != 1:
        return None
    half, rest = divmod(action_space.shape[0], 2)
    first, second = (_part(action_space, part) for part in (slice(0, half), slice(half, None)))
    return Seat(observation_space, first) if half and not rest and first == second else None


def _part(space: spaces.Box | spaces.MultiDiscrete, part: slice) -> spaces.Space:
    if isinstance(space, spaces.Box):
        return spaces.Box(space.low[part], space.high[part], dtype=space.dtype.type)  # type: ignore[union-attr]
    counts, starts = space.nvec[part], space.start[part]
    if len(counts) == 1:
        return spaces.Discrete(int(counts[0]), start=int(starts[0]))
    return spaces.MultiDiscrete(counts, start=starts)
