"""Worlds in which agents take turns: `turn(state)` returns the agent whose action counts in the next step.

The other agents have no choice in that step, and their masks say so: only their first action is allowed. A policy takes
it with probability 1, so a learner cannot learn from it as if it had been chosen; it only learns what the position is
worth. This holds for every learner that uses masks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

Function = Callable[..., Any]


def has_masks(space: Any) -> bool:
    """Whether actions of this space can be masked."""
    return isinstance(space, (spaces.Discrete, spaces.MultiDiscrete))


def mask_of_turns(space: spaces.Space, turn: Function, own_mask: Function | None) -> Function:
    """The action mask of a world with `turn`, whose actions are in `space`: its own mask (all actions, if it has none)
    for the agent that acts next, and the first action for the others. Both functions take all arguments of their
    roles."""
    firsts = _first_choices(space)

    def all_actions(state: Any, out: Any, agent: int, params: Any, tables: Any) -> None:
        for k in range(len(out)):
            out[k] = 1

    allowed = own_mask or all_actions

    def action_mask(state: Any, out: Any, agent: int, params: Any, tables: Any) -> None:
        if turn(state, params, tables) == agent:
            allowed(state, out, agent, params, tables)
            return
        for k in range(len(out)):
            out[k] = 0
        for first in firsts:
            out[first] = 1

    return action_mask


def _first_choices(space: Any) -> tuple[int, ...]:
    """Where the first choice of each number of an action is in its mask.

    >>> _first_choices(spaces.MultiDiscrete([3, 2, 4]))
    (0, 3, 5)
    """
    if isinstance(space, spaces.Discrete):
        return (0,)
    return tuple(int(at) for at in np.cumsum([0, *np.ravel(space.nvec)[:-1]]))
