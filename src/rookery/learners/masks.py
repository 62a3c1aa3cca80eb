"""Action masks: which actions an env allows. True means allowed.

A mask of a Dict or Tuple of actions is flat: one entry for each value of each Discrete and MultiDiscrete part, in the
order of the parts. Envs may give it flat, or as a dict or tuple of masks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rookery.errors import SpaceError
from rookery.learners.action_tree import ActionPart, ActionTree
from rookery.learners.observations import MASK_KEY


def mask_of(
    observation: Any, infos: dict[str, Any] | None = None, action_space: spaces.Space | None = None
) -> np.ndarray | None:
    """The allowed actions, from a Dict observation's "action_mask" or else from the infos'; an env that gives none
    allows all. Masks in the structure of a Dict or Tuple `action_space` are made flat."""
    if isinstance(observation, dict) and MASK_KEY in observation:
        mask = observation[MASK_KEY]
        if action_space is not None and isinstance(mask, (dict, tuple)):
            return flat_mask(action_space, mask)
        return np.asarray(mask.cpu() if isinstance(mask, torch.Tensor) else mask, np.bool_)
    if not infos or MASK_KEY not in infos:
        return None
    mask, given = infos[MASK_KEY], infos.get(f"_{MASK_KEY}")
    if action_space is not None and _is_structured(mask):
        mask = flat_mask(action_space, mask)
    if mask.dtype == object:
        mask = _stacked(mask)
    mask = mask.astype(np.bool_)
    if given is not None:
        mask[~given] = True
    return mask


def _stacked(masks: np.ndarray) -> np.ndarray:
    """One array of the masks of several envs, of which some may have none."""
    given = [row for row in masks if row is not None]
    shapes = sorted({np.shape(row) for row in given})
    if len(shapes) > 1:
        raise SpaceError(f"`action_mask` should be of the same shape in all envs, got {' and '.join(map(str, shapes))}")
    return np.stack([np.ones_like(given[0]) if row is None else row for row in masks])


def _is_structured(mask: Any) -> bool:
    """Whether it is a dict of columns, or an array of one dict or tuple for each env."""
    if isinstance(mask, dict):
        return True
    rows = [row for row in mask if row is not None] if mask.dtype == object else []
    return bool(rows) and isinstance(rows[0], (dict, tuple))


def flat_mask(action_space: spaces.Space, mask: Any) -> np.ndarray:
    """The flat mask, [rows, choices], of masks in the structure of the space: a batch, as Dict observations and infos
    have it (with `_key` beside `key`), or an array of one for each env. A part without a mask allows everything."""
    if isinstance(mask, np.ndarray):
        return np.concatenate([flat_mask(action_space, _batch_of_one(row)) for row in mask])
    _check_keys(action_space, mask)
    rows = next((len(leaf) for leaf in _leaves(mask)), 1)
    columns = [_mask_columns(part, mask, rows) for part in ActionTree(action_space).parts if part.choices]
    return np.concatenate([np.empty((rows, 0), bool), *columns], axis=1)


def _batch_of_one(mask: Any) -> Any:
    if isinstance(mask, dict):
        return {key: _batch_of_one(part) for key, part in mask.items()}
    if isinstance(mask, tuple):
        return tuple(_batch_of_one(part) for part in mask)
    return {} if mask is None else np.asarray(mask)[None]


def _leaves(mask: Any) -> Iterator[Any]:
    if isinstance(mask, (dict, tuple, list)):
        for part in mask.values() if isinstance(mask, dict) else mask:
            yield from _leaves(part)
    elif mask is not None:
        yield mask


def _mask_columns(part: ActionPart, mask: Any, rows: int) -> np.ndarray:
    """The columns of one part, [rows, choices]."""
    given: Any = None
    for key in part.path:
        if isinstance(mask, dict):
            mask, given = mask.get(key), mask.get(f"_{key}")
        elif isinstance(mask, (tuple, list)) and isinstance(key, int) and key < len(mask):
            mask, given = mask[key], None
        else:
            mask = None
    if mask is None or isinstance(mask, dict):  # an empty one stands for none
        return np.ones((rows, part.choices), bool)
    if isinstance(mask, np.ndarray) and mask.dtype == object:  # some envs have none
        mask = np.stack([np.ones(part.choices) if row is None else _flat(row) for row in mask])
    elif isinstance(mask, (tuple, list)):  # of a MultiDiscrete: one mask for each of its numbers
        mask = np.concatenate([np.asarray(column).reshape(rows, -1) for column in mask], axis=1)
    columns = np.array(mask.cpu() if isinstance(mask, torch.Tensor) else mask, bool)
    if columns.size != rows * part.choices:
        raise SpaceError(
            f"`action_mask` of {part.name!r} should have {part.choices} entries in each env, one for each choice in "
            f"{part.space}: here shape {(rows, part.choices)} in all, got {columns.shape}"
        )
    columns = columns.reshape(rows, -1)
    if given is not None:
        columns[~given] = True
    return columns


def _flat(mask: Any) -> np.ndarray:
    """The mask of one plain space in one env; that of a MultiDiscrete may be a tuple of masks."""
    parts = mask if isinstance(mask, (tuple, list)) else (mask,)
    return np.concatenate([np.ravel(part) for part in parts])


def _check_keys(space: Any, mask: Any) -> None:
    """Refuse a mask for a part that is not there: a misspelt key would allow everything."""
    if not isinstance(mask, dict):
        return
    keys = list(space.spaces) if isinstance(space, spaces.Dict) else []
    for key, part in mask.items():
        if key in keys:
            _check_keys(space[key], part)
        elif not (isinstance(key, str) and key.startswith("_") and key[1:] in keys):
            raise SpaceError(f"`action_mask` has a part {key!r}, but the parts of the actions are {keys}: {space}")
