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
    return action if mask is None else _legal(space, action, mask)


def _legal(space: gym.Space, action: Any, mask: Any) -> Any:
    """Part by part, where Dict and Tuple actions have a dict or tuple of masks; other forms are for policies."""
    if isinstance(space, gym.spaces.Dict) and isinstance(mask, dict):
        return {key: _legal(part, action[key], mask.get(key)) for key, part in space.items()}
    if isinstance(space, gym.spaces.Tuple) and isinstance(mask, tuple):
        return tuple(_legal(*parts) for parts in zip(space.spaces, action, mask, strict=True))
    if isinstance(space, gym.spaces.Discrete) and mask is not None:
        return np.int64(_allowed(space.start, mask, action))
    if isinstance(space, gym.spaces.MultiDiscrete) and mask is not None:
        return _legal_numbers(space, action, mask)
    return action


def _legal_numbers(space: gym.spaces.MultiDiscrete, action: Any, mask: Any) -> Any:
    """A MultiDiscrete action under the masks of its numbers: one after another, or as a tuple; others are ignored."""
    flat = np.concatenate([np.ravel(part) for part in mask]) if isinstance(mask, (tuple, list)) else np.ravel(mask)
    if flat.size != space.nvec.sum():
        return action
    parts = np.split(flat, np.cumsum(space.nvec.ravel())[:-1])
    numbers = zip(np.ravel(space.start), parts, np.ravel(action), strict=True)
    return np.array([_allowed(*number) for number in numbers], space.dtype).reshape(space.shape)


def legal_batch(space: gym.Space, actions: Any, last: Any) -> Any:
    """The same for each env of a vector env, whose single action space is `space`, if that is a Discrete or a
    MultiDiscrete."""
    plain = gym.spaces.Discrete, gym.spaces.MultiDiscrete
    masks = _mask(space, last) if isinstance(space, plain) else None
    if masks is None:
        return actions
    return np.array([_legal(space, action, mask) for mask, action in zip(masks, actions, strict=True)])


def _mask(space: gym.Space, last: Any) -> Any:
    masked = gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.Dict, gym.spaces.Tuple
    if isinstance(space, masked) and isinstance(last, tuple) and len(last) > 1:
        for place in (last[-1], last[0]):
            if isinstance(place, dict) and place.get(MASK) is not None:
                return place[MASK]
    return None


def _allowed(start: Any, mask: Any, action: Any) -> int:
    """The action, or a legal one in its place; the action itself where none is legal, as after an episode."""
    allowed = np.flatnonzero(mask) + start
    if len(allowed) == 0 or action in allowed:
        return action
    return allowed[int(action) % len(allowed)]
