"""Dict and Tuple actions as one flat vector, the bounds of continuous ones, and masks of discrete ones.

Learners act in the vector, envs get the parts. It holds them one after another: a Box part as its numbers, a choice
(Discrete, MultiDiscrete, MultiBinary) as its number, counted from 0.

Masks say which actions an env allows. That of a Dict or Tuple is flat: one entry for each value of each Discrete and
MultiDiscrete part, in the order of the parts. Envs may give it flat, or as a dict or tuple of masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.errors import OptionError, SpaceError
from rookery.learners.observations import MASK_KEY, at_path, choices_in

PLAIN = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
Path = tuple[str | int, ...]  # the keys that lead to a part
Values = Any  # an array or a tensor, [batch, ...]


class ActionPart:
    """One space in the tree, and its columns of the flat vector."""

    def __init__(self, path: Path, space: Any, columns: slice) -> None:
        self.path, self.space, self.columns = path, space, columns
        self.start = getattr(space, "start", 0)  # what is added to choices, which count from 0 in the flat vector
        # What tensors need, in plain values: an exported model can hold no arrays.
        self._starts = [int(start) for start in np.broadcast_to(self.start, space_shape(space)).ravel()]
        self._dtype = torch.from_numpy(np.empty(0, space.dtype)).dtype if isinstance(space, PLAIN) else None

    @property
    def name(self) -> str:
        """
        >>> ActionPart(("arm", 0), spaces.Discrete(2), slice(0, 1)).name
        'arm.0'
        """
        return ".".join(str(key) for key in self.path)

    @property
    def choices(self) -> int:
        """How many entries a mask has for it."""
        return choices_in(self.space) or 0

    def of(self, flat: Values) -> Values:
        """Its actions as the env takes them, from a batch of flat ones."""
        values, shape = flat[:, self.columns], space_shape(self.space)
        if isinstance(flat, torch.Tensor):
            return self._of_tensor(values).reshape(-1, *shape)
        values = values.reshape(-1, *shape)
        if isinstance(self.space, spaces.Box):  # bounds of 64 bits are not those of the 32 bits in which nets compute
            return values.astype(self.space.dtype).clip(self.space.low, self.space.high)
        return (values.astype(np.int64) + self.start).astype(self.space.dtype)

    def _of_tensor(self, values: torch.Tensor) -> torch.Tensor:
        if isinstance(self.space, spaces.Box):
            return values.to(self._dtype)
        columns = [values[:, k : k + 1].long() + start for k, start in enumerate(self._starts)]
        return torch.cat(columns, 1).to(self._dtype)


class ActionTree:
    """The parts of a Dict or Tuple action space.

    >>> tree = ActionTree(spaces.Dict(arm=spaces.Discrete(3, start=1), force=spaces.Box(0, 9, (2,))))
    >>> {name: part.tolist() for name, part in tree.nest(np.array([[2, 0.5, 10]], np.float32)).items()}
    {'arm': [3], 'force': [[0.5, 9.0]]}
    """

    def __init__(self, space: spaces.Space) -> None:
        self.space, self.parts, self.width = space, list[ActionPart](), 0
        for path, part in _plain_spaces(space):
            size = int(np.prod(space_shape(part), dtype=np.int64))
            self.parts.append(ActionPart(path, part, slice(self.width, self.width + size)))
            self.width += size

    def nest(self, flat: Values) -> Any:
        """A batch of flat actions, [batch, width], in the structure of the space."""
        return _structured(self.space, iter([part.of(flat) for part in self.parts]))

    def flatten(self, nested: Any) -> np.ndarray:
        """The flat vectors, [batch, width], of a batch in the structure of the space."""
        columns = [at_path(nested, part.path) for part in self.parts]
        return np.concatenate([np.reshape(column, (len(column), -1)) for column in columns], 1)

    def as_box(self) -> spaces.Box | None:
        """The flat vector as a Box, if all parts are boxes of floats."""
        boxes = [part.space for part in self.parts]
        if not boxes or not all(isinstance(box, spaces.Box) and box.dtype.kind == "f" for box in boxes):
            return None
        low, high = (np.concatenate([getattr(box, end).ravel() for box in boxes]) for end in ("low", "high"))
        return spaces.Box(low.astype(np.float32), high.astype(np.float32))


def action_tree(space: spaces.Space) -> ActionTree | None:
    """The tree of a Dict or Tuple; None for a space that is one array."""
    return ActionTree(space) if isinstance(space, (spaces.Dict, spaces.Tuple)) else None


def row_of(actions: Any, row: int) -> Any:
    """One action of a batch in any structure."""
    if isinstance(actions, dict):
        return {key: row_of(part, row) for key, part in actions.items()}
    return tuple(row_of(part, row) for part in actions) if isinstance(actions, tuple) else actions[row]


def flat_space(space: spaces.Space) -> spaces.Space:
    """The Box in which a learner for continuous actions acts: that of a Dict or Tuple of boxes, else the space."""
    tree = action_tree(space)
    return space if tree is None else tree.as_box() or space


def space_shape(space: spaces.Space) -> tuple[int, ...]:
    """The shape of one action of a plain space."""
    return tuple(space.shape or ())


def _plain_spaces(space: spaces.Space, path: Path = ()) -> list[tuple[Path, spaces.Space]]:
    if isinstance(space, spaces.Dict):
        return [found for key, part in space.items() for found in _plain_spaces(part, (*path, key))]
    if isinstance(space, spaces.Tuple):
        return [found for k, part in enumerate(space.spaces) for found in _plain_spaces(part, (*path, k))]
    return [(path, space)]


def _structured(space: spaces.Space, values: Iterator[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _structured(part, values) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_structured(part, values) for part in space.spaces)
    return next(values)


class ActionBounds(nn.Module):
    """The bounds of continuous actions, for learners whose own actions lie between -1 and 1. Those of a Dict or Tuple
    are flat vectors (see `ActionTree`)."""

    bias: Tensor
    scale: Tensor

    def __init__(self, space: spaces.Space, learner: str) -> None:
        super().__init__()
        space = flat_space(space)
        if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            takes = "it takes a Box of floats, or a Dict or Tuple of these (DQN takes Discrete, PPO all of these)"
            raise OptionError(f"{learner} cannot act in {space}; {takes}")
        if not space.is_bounded():
            raise OptionError(f"{learner} needs actions with bounds, and {space} has none; PPO can do without")
        self.shape, self.size = space.shape, space.low.size
        # By NumPy: on the meta device, which tells how large nets are, torch imports 900 modules for arithmetic.
        with np.errstate(over="ignore"):
            low, high = space.low.astype(np.float32), space.high.astype(np.float32)
            bias, scale = (high + low) / 2, (high - low) / 2
        self.register_buffer("bias", torch.as_tensor(bias), persistent=False)
        self.register_buffer("scale", torch.as_tensor(scale), persistent=False)

    def to_env(self, actions: Tensor) -> Tensor:
        """From -1 to 1 into the bounds of the env."""
        return actions.reshape(-1, *self.shape) * self.scale + self.bias

    def from_env(self, actions: np.ndarray) -> np.ndarray:
        """The way back, for recorded actions [rows, *shape]; where the bounds leave no choice, 0."""
        bias, scale = (part.cpu().numpy().ravel() for part in (self.bias, self.scale))
        own = (actions.reshape(len(actions), -1) - bias) / np.where(scale > 0, scale, 1.0)
        return own.astype(np.float32)

    def numpy_to_env(self) -> Callable[[np.ndarray], np.ndarray]:
        """`to_env` for arrays."""
        bias, scale, shape = self.bias.cpu().numpy(), self.scale.cpu().numpy(), self.shape
        return lambda actions: actions.reshape(-1, *shape) * scale + bias


# --- masks ------------------------------------------------------------------------------------------------------------


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
