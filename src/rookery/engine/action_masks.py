"""Random actions for envs that say which actions are legal: in `infos["action_mask"]`, or in the same place of an
observation that is a dict. `last` is what `reset` or `step` returned, of one env or of a vector env."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

MASK = "action_mask"


def has_masks(space: gym.Space, last: Any) -> bool:
    """Whether an env with this action space says which actions are legal: for loops that should check only once."""
    return _mask(space, last) is not None


def legal(space: gym.Space, action: Any, last: Any) -> Any:
    """`action` or, if a mask forbids it, a legal one: the same for the same action and mask."""
    mask = _mask(space, last)
    return action if mask is None else np.int64(_allowed(space, mask, action))


def legal_batch(space: gym.Space, actions: Any, last: Any) -> Any:
    """The same for each env of a vector env, whose single action space is `space`."""
    masks = _mask(space, last)
    if masks is None:
        return actions
    return np.array([_allowed(space, *pair) for pair in zip(masks, actions, strict=True)], np.int64)


def _mask(space: gym.Space, last: Any) -> Any:
    if isinstance(space, gym.spaces.Discrete) and isinstance(last, tuple) and len(last) > 1:
        for place in (last[-1], last[0]):
            if isinstance(place, dict) and place.get(MASK) is not None:
                return place[MASK]
    return None


def _allowed(space: Any, mask: Any, action: Any) -> int:
    """The action, or a legal one in its place; the action itself where none is legal, as after an episode."""
    allowed = np.flatnonzero(mask) + space.start
    if len(allowed) == 0 or action in allowed:
        return action
    return allowed[int(action) % len(allowed)]
