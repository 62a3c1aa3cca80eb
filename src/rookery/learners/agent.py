"""An agent: the part of a learner that acts. It takes batches of observations and returns actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.errors import BadValue, SpaceError, UsageError
from rookery.foreign_names import missing
from rookery.learners.action_spaces import action_tree, flat_mask, mask_of, row_of
from rookery.learners.encoders import CustomEncoder
from rookery.learners.frozen_policy import forward_pass
from rookery.learners.observations import Leaf, choices_in, leaves_of, part_of
from rookery.learners.policy import Policy

UNREADABLE = (KeyError, IndexError, TypeError, AttributeError)


class Agent:
    """Plays. `act` takes a batch of observations, or a single one, as arrays or tensors, and returns actions of the
    same kind.

    A recurrent agent has a memory: `starts` marks the rows that begin a new episode (all do when the size of the batch
    changes, or after `reset_memory()`).
    """

    deterministic = True  # whether to show it with deterministic actions rather than sampled ones
    writer: Callable[[Agent, Path], Path] | None = None  # what `save` does; agents of runs have it
    learner = world = ""  # their names, where they are known
    steps: int | None = None  # of its training
    run: Path | None = None  # the folder of the run that it is from
    source: Any = None  # its world, if that is an object of this session

    def __init__(
        self, policy: Policy, observation_space: spaces.Space, action_space: spaces.Space, device: torch.device
    ) -> None:
        self.policy, self.device = policy, device
        self.observation_space, self.action_space = observation_space, action_space
        self._choices, self._tree = choices_in(action_space), action_tree(action_space)
        self._generator = torch.Generator(device).manual_seed(0)
        self._memory: Tensor | None = None

    if not TYPE_CHECKING:  # which knows all names that there are

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(missing("an Agent", name, dir(type(self))))

    def __repr__(self) -> str:
        """The learner, the world, what it reads and returns, and for how many steps it was trained."""
        parts = [self.learner, self.world, f"{_size(self.observation_space)} -> {_actions(self.action_space)}"]
        parts += [f"{self.steps:,} steps"] if self.steps is not None else []
        parts += [str(self.device)] if self.device.type != "cpu" else []
        return f"Agent({', '.join(part for part in parts if part)})"

    def seed(self, seed: int) -> None:
        """Fix the random choices that follow."""
        self._generator.manual_seed(seed)

    def reset_memory(self) -> None:
        """Start new episodes: a recurrent agent's memory becomes zero."""
        self._memory = None

    forget = reset_memory  # its name in earlier versions

    def act(self, observations: Any, deterministic: bool = False, *, mask: Any = None, starts: Any = None) -> Any:
        """Actions for a batch of observations, or the action for a single one; `mask` [batch, actions] allows some of
        them only. The action of a row depends on that row alone, bit for bit, whatever the size of the batch."""

        def recall(rows: int) -> Tensor:
            known = self._memory if self._memory is not None and len(self._memory) == rows else None
            return self._memory_for(rows, known, starts)

        actions, self._memory = self._act(observations, deterministic, mask, recall)
        return actions

    act_batch = act

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, np.ndarray | None]:
        """Actions and the next state, as Stable-Baselines3 has it. The state of a recurrent agent is given back to the
        next call, with `episode_start` for the rows that begin a new episode; of others it is None. The memory of `act`
        is neither used nor changed."""

        def recall(rows: int) -> Tensor:
            known = None if state is None else torch.as_tensor(state, device=self.device).reshape(rows, -1)
            return self._memory_for(rows, known, episode_start)

        actions, memory = self._act(observation, deterministic, action_masks, recall)
        return actions, None if memory is None else memory.cpu().numpy()

    @torch.no_grad()
    def _act(
        self, observations: Any, deterministic: bool, mask: Any, recall: Callable[[int], Tensor]
    ) -> tuple[Any, Tensor | None]:
        """Actions, and the next memory of a recurrent agent."""
        own = isinstance(getattr(self.policy, "encoder", None), CustomEncoder)  # it may know what to do with NaN
        leaves, single = read_leaves(self.policy.leaves, observations, self.device, nan=own)
        as_tensors = isinstance(next(_arrays(observations)), Tensor)
        rows = len(leaves[0])
        mask = mask_of(observations, action_space=self.action_space) if mask is None else mask
        if mask is not None:
            mask = flat_mask(self.action_space, mask) if isinstance(mask, (dict, tuple)) else mask
            mask = torch.as_tensor(mask, device=self.device).bool()
            self.check_mask(mask, rows)
            mask = mask.reshape(rows, -1)
        noise = None if deterministic else self.policy.sample_noise(rows, self._generator)
        memory = recall(rows) if self.policy.memory_size else None
        actions, memory = forward_pass(self.policy).on_tensors(leaves, noise, memory, mask)
        actions = self.nested(actions) if as_tensors else self.as_arrays(actions)
        return row_of(actions, 0) if single else actions, memory

    def save(self, path: str | Path) -> Path:
        """Write the agent to a folder, which `rookery.load(path)` reads: weights, normalisation and spaces, without
        what only the learner needs. It can also be an opponent, such as `--opponent path`. An agent that is there is
        replaced. Returns the path."""
        if self.writer is None:
            raise UsageError("save() needs an agent of a run: from rookery.train, rookery.resume or rookery.load")
        return self.writer(self, Path(path))

    def export(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the agent to a file for other programs, in the format that its name says: `agent.onnx`; `agent.py`, one
        file that needs only NumPy; or `model.zip`, a model of Stable-Baselines3. Returns the path."""
        return import_module("rookery.training.export.export").export(self, path, overwrite=overwrite)  # it imports us

    def as_arrays(self, actions: Tensor) -> Any:
        """The policy's actions as the env takes them: an array, or a Dict or Tuple of arrays."""
        return self.nested(actions.cpu().numpy())

    def nested(self, actions: Any) -> Any:
        """The same for a policy's actions that are arrays, or stay tensors."""
        return actions if self._tree is None else self._tree.nest(actions)

    def check_mask(self, mask: Any, rows: int) -> None:
        """Refuse a mask whose size does not fit the discrete actions of so many envs. A policy without discrete actions
        refuses masks itself."""
        if self._choices is not None and math.prod(mask.shape) != rows * self._choices:
            raise SpaceError(
                f"`action_mask` should have {self._choices} entries in each env, one for each choice in "
                f"{self.action_space}: here shape {(rows, self._choices)} in all, got {tuple(mask.shape)}"
            )

    def _memory_for(self, rows: int, known: Tensor | None, starts: Any) -> Tensor:
        """The memory of so many rows: zero where it is not known, or an episode starts."""
        if known is None:
            return torch.zeros(rows, self.policy.memory_size, device=self.device)
        if starts is None:
            return known
        return known.masked_fill(torch.as_tensor(starts, device=self.device).bool().reshape(-1, 1), 0.0)


def _arrays(observations: Any) -> Any:
    if isinstance(observations, dict):
        observations = observations.values()
    elif not isinstance(observations, tuple):
        yield observations
        return
    for part in observations:
        yield from _arrays(part)


def _size(space: spaces.Space) -> str:
    """
    >>> _size(spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(-1, 1, (4,)), c=spaces.Box(0, 255, (84, 84, 3), np.uint8)))
    '1 of 3, 4 numbers, 84 x 84 x 3 pixels'
    """
    sizes = {"vector": "numbers", "image": "pixels"}
    parts = [
        f"{' x '.join(map(str, leaf.shape)) or 1} {sizes[leaf.kind]}"
        if leaf.kind in sizes
        else " x ".join(f"1 of {size}" for size in leaf.sizes[:4])
        for leaf in leaves_of(space)
    ]
    return ", ".join(parts[:4]) + (f", and {len(parts) - 4} more" if len(parts) > 4 else "")


def _actions(space: spaces.Space) -> str:
    """
    >>> _actions(spaces.Discrete(2)), _actions(spaces.MultiDiscrete([3, 2])), _actions(spaces.Box(-1, 1, (6,)))
    ('2 actions', '3 x 2 actions', '6 numbers')
    """
    if isinstance(space, spaces.Discrete):
        return f"{space.n} actions"
    if isinstance(space, spaces.MultiDiscrete):
        return f"{' x '.join(map(str, space.nvec.ravel()[:8]))} actions"
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return " + ".join(_actions(part) for part in parts)
    return f"{' x '.join(map(str, space.shape or (1,)))} {'numbers' if isinstance(space, spaces.Box) else 'switches'}"


# --- what it is given to act on: anything that is not numbers of the right shape gets an error ------------------------


def read_leaves(
    leaves: Sequence[Leaf], observations: Any, device: torch.device, nan: bool = False
) -> tuple[list[Tensor], bool]:
    """Observations as one tensor [batch, ...] per leaf, and whether a single observation was given. `nan` allows NaN;
    a GPU's tensors are not searched for it, as that would wait for the GPU."""
    given = [_numbers(leaf, _part(leaf, observations)) for leaf in leaves]
    single = all(values.shape == leaf.shape for leaf, values in zip(leaves, given, strict=True))
    tensors = []
    for leaf, values in zip(leaves, given, strict=True):
        if not single and (values.ndim == 0 or values.shape[1:] != leaf.shape):
            wanted = f"({', '.join(['batch', *map(str, leaf.shape)])})"
            one = f", or {leaf.shape} for one observation" if len(leaves) == 1 else ""
            raise SpaceError(f"{leaf.name} should be of shape {wanted}{one}, got {tuple(values.shape)}")
        if not isinstance(values, Tensor) or values.device.type == "cpu":
            _check_values(leaf, values, nan)
        tensor = (values if isinstance(values, Tensor) else torch.from_numpy(values)).to(device, leaf.dtype)
        tensors.append(tensor.unsqueeze(0) if single else tensor)
    rows = {len(tensor) for tensor in tensors}
    if len(rows) > 1:
        raise SpaceError(f"the parts of the observations have different numbers of rows: {sorted(rows)}")
    return tensors, single


def _part(leaf: Leaf, observations: Any) -> Any:
    try:
        return part_of(observations, leaf)
    except UNREADABLE:
        raise SpaceError(
            f"the observations should have a part {leaf.name!r}, as the agent's world gives it, "
            f"got {observations!r:.60}"
        ) from None


def _numbers(leaf: Leaf, values: Any) -> Any:
    """An array or a tensor of numbers; arrays that torch can take, which warns of read-only memory."""
    if isinstance(values, Tensor):
        return values
    try:
        array = np.asarray(values, order="C")  # a single number keeps its shape ()
    except (ValueError, TypeError, OverflowError, RuntimeError):
        raise SpaceError(f"{leaf.name} should be numbers, with equally many in each row, got {values!r:.60}") from None
    if array.dtype.kind not in "biuf":
        raise SpaceError(f"{leaf.name} should be numbers of shape {leaf.shape}, or a batch of such, got {values!r:.60}")
    if array.dtype.itemsize > 8 or not array.dtype.isnative:  # which torch does not take
        return array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    return array if array.flags.writeable else array.copy()


def _check_values(leaf: Leaf, values: Any, nan: bool) -> None:
    """Refuse NaN; of choices and pixels also what would become another number when it is cast."""
    if isinstance(values, Tensor):
        if leaf.dtype == torch.float32 and not values.is_floating_point():
            return
        values = (values.float() if values.dtype == torch.bfloat16 else values).detach().numpy()  # NumPy has none
    if values.dtype.kind == "f" and not (nan and leaf.dtype == torch.float32) and _has_nan(values):
        first = np.argwhere(np.isnan(values))[0].tolist()
        raise BadValue(f"{leaf.name}{first or ''} is nan: an agent needs numbers to act on")
    if leaf.dtype == torch.float32 or (leaf.byte and values.dtype == np.uint8):
        return
    low = np.array(leaf.starts).reshape(leaf.shape) if leaf.kind == "choice" else 0
    high = low + np.array(leaf.sizes).reshape(leaf.shape) if leaf.kind == "choice" else 256
    wrong = (values < low) | (values >= high) | (values != np.floor(values))
    if wrong.any():
        first = np.argwhere(wrong)[0].tolist()
        bounds = f"from {np.min(low)} to {np.max(high) - 1}"
        raise SpaceError(f"{leaf.name}{first or ''} should be an integer {bounds}, got {values[tuple(first)]}")


def _has_nan(values: np.ndarray) -> bool:
    """A minimum is NaN if a number is; quicker than `np.isnan(values).any()`. A sum of squares would overflow."""
    return math.isnan(np.minimum.reduce(values, axis=None, initial=0.0))
