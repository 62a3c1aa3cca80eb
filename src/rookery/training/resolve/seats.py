"""A seat at a game for two: what one of the players sees and does.

A *duel* is an env in which one row holds both players. Observations and rewards are the first player's, the other's
view is in `infos["obs_agent_two"]`, the action space holds both players' actions one after the other, and the last info
of a game says in `winner` (-1, 0, 1) whether the first player won.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gymnasium import spaces

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
        """Hockey's discrete actions as the four numbers that are wanted here: a row for each of an agent's choices, so
        that it can meet agents that act in numbers. None where that is not what the two spaces are."""
        from rookery.worlds.hockey.rules import discrete_action

        four = spaces.Box(-1, 1, (4,), np.float32)
        if self.action_space != four or self.observation_space.shape != (18,):
            return None
        if not isinstance(action_space, spaces.Discrete) or action_space.start or action_space.n < 8:
            return None
        fineness, rest = divmod(int(action_space.n) - 2, 6)
        if rest:
            return None
        return np.array([discrete_action(k, fineness + 1) for k in range(int(action_space.n))], np.float32)


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
