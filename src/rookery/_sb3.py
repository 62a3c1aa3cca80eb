"""What envs and actions need for Stable-Baselines3, without importing it: worker processes use this.

SB3's algorithms act in a Box, Discrete, one-dimensional MultiDiscrete or MultiBinary. `FlatActions` presents any other
space as one of these, and translates the actions back. SB3 resets envs with options only where there are some.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rookery.console import say
from rookery.engine.batch import SpaceLeaf, join, leaves, split
from rookery.errors import OptionError, SpaceError, WorldError

DISCRETE = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
Decode = Callable[[np.ndarray], np.ndarray]  # the columns of one part, [envs, width], to its actions


class ActionBatch:
    """Actions as SB3 gives them, one for each env, as the batch that the engine takes."""

    def __init__(self, space: spaces.Space, num_envs: int) -> None:
        self._space, self._num_envs = space, num_envs
        self._leaves = leaves(space)
        self._is_nested = isinstance(space, (spaces.Dict, spaces.Tuple))

    def __call__(self, actions: Any) -> Any:
        if not self._is_nested:
            return self._cut(_whole_numbers(self._leaves[0], actions))
        if not self._one_per_env(actions):
            return actions
        if len(actions) != self._num_envs:
            raise SpaceError(f"there should be one action for each of {self._num_envs} envs, got {len(actions)}")
        columns = zip(*(split(self._space, action) for action in actions), strict=True)
        parts = zip(self._leaves, columns, strict=True)
        return join(self._space, (_whole_numbers(leaf, list(column)) for leaf, column in parts))

    def _cut(self, actions: Any) -> Any:
        """`DummyVecEnv` ignores surplus rows and passes numbers on unseen. Here surplus ones are dropped, and said."""
        leaf, shape = self._leaves[0], np.shape(actions) if isinstance(actions, np.ndarray) else ()
        wanted = (self._num_envs, *leaf.shape)
        if len(shape) != len(wanted) or shape == wanted or any(n < m for n, m in zip(shape, wanted, strict=True)):
            return actions
        warnings.warn(
            f"actions of shape {shape} are cut to {wanted}: {self._num_envs} envs of {leaf.space}", stacklevel=4
        )
        return actions[tuple(slice(size) for size in wanted)]

    def _one_per_env(self, actions: Any) -> bool:
        """False for a batch in Gymnasium's form: a dict of arrays, or a tuple of arrays."""
        if isinstance(actions, tuple) and isinstance(self._space, spaces.Tuple):
            return len(actions) == self._num_envs and all(isinstance(action, (tuple, list)) for action in actions)
        return isinstance(actions, (list, tuple, np.ndarray))


def _whole_numbers(leaf: SpaceLeaf, values: Any) -> Any:
    """SB3's policies give MultiBinary actions as floats, and its users give zeros for anything: floats with an integer
    value count as integers."""
    if leaf.dtype is None or leaf.dtype.kind not in "biu" or getattr(values, "dtype", None) == leaf.dtype:
        return values
    array = np.asarray(values)
    if array.dtype.kind != "f" or not np.array_equal(array, np.trunc(array)):
        return values  # the engine says what is wrong with them
    return array.astype(np.int64)


class FlatActions:
    """An action space of any nesting as the flat `space`; `decode` turns a batch of flat actions into the env's.

    Only discrete parts become a MultiDiscrete. With a Box among them, everything is one Box from -1 to 1: a continuous
    part is scaled to its bounds, a choice takes the largest of as many numbers as it has values, and a bit is 1 where
    its number is above 0.

    >>> FlatActions(spaces.Dict(move=spaces.Discrete(3), jump=spaces.MultiBinary(1))).space
    MultiDiscrete([3 2])
    >>> FlatActions(spaces.Dict(move=spaces.Discrete(3), force=spaces.Box(0, 9, (2,)))).space
    Box(-1.0, 1.0, (5,), float32)
    """

    def __init__(self, space: spaces.Space) -> None:
        self._space, parts = space, leaves(space)
        for leaf in parts:
            _check_part(leaf)
        self.is_discrete = all(isinstance(leaf.space, DISCRETE) for leaf in parts)
        self._decoders = [_from_choices(leaf) if self.is_discrete else _from_numbers(leaf) for leaf in parts]
        if self.is_discrete:
            sizes = [size for leaf in parts for size in _sizes(leaf.space)]
            self._widths = [len(_sizes(leaf.space)) for leaf in parts]
            self.space: spaces.Space = spaces.MultiDiscrete(sizes)
        else:
            self._widths = [_numbers(leaf.space) for leaf in parts]
            self.space = spaces.Box(-1.0, 1.0, (sum(self._widths),), np.float32)

    def decode(self, actions: Any) -> Any:
        """The env's actions, batched as Gymnasium batches them."""
        array = np.asarray(actions)
        if array.ndim != 2 or array.shape[1] != sum(self._widths):
            raise SpaceError(f"flat actions should be of shape (envs, {sum(self._widths)}), got {array.shape}")
        columns = np.split(array, np.cumsum(self._widths)[:-1], axis=1)
        return join(self._space, (decode(part) for decode, part in zip(self._decoders, columns, strict=True)))


def fits_sb3(space: spaces.Space) -> bool:
    """Whether SB3's algorithms can act in this space as it is."""
    if isinstance(space, spaces.MultiDiscrete):
        return len(space.shape) == 1 and not np.any(space.start)
    return isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiBinary))


def _check_part(leaf: SpaceLeaf) -> None:
    where = f"the part {leaf.name} of the actions" if leaf.path else "the action space"
    if isinstance(leaf.space, spaces.Box):
        if leaf.dtype is None or leaf.dtype.kind != "f" or not leaf.space.is_bounded():
            raise OptionError(f"flatten_actions needs Box parts of floats with finite bounds; {where} is {leaf.space}")
    elif not isinstance(leaf.space, DISCRETE):
        kinds = "Box, Discrete, MultiDiscrete and MultiBinary"
        raise OptionError(f"flatten_actions takes {kinds}, in any nesting; {where} is {leaf.space}")


def _sizes(space: spaces.Space) -> list[int]:
    """How many values each number of a discrete part can take."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in space.nvec.ravel()]
    return [2] * int(np.prod(space.shape or ()))


def _numbers(space: spaces.Space) -> int:
    """How many continuous numbers stand for a part."""
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        return sum(_sizes(space))
    return int(np.prod(space.shape or ()))


def _from_choices(leaf: SpaceLeaf) -> Decode:
    start = getattr(leaf.space, "start", 0)
    return lambda part: (part.reshape(-1, *leaf.shape) + start).astype(leaf.dtype)


def _from_numbers(leaf: SpaceLeaf) -> Decode:
    space = leaf.space
    if isinstance(space, spaces.MultiBinary):
        return lambda part: (part > 0).reshape(-1, *leaf.shape).astype(leaf.dtype)
    if isinstance(space, spaces.Box):
        low, high = space.low, space.high

        def scaled(part: np.ndarray) -> np.ndarray:
            share = (np.clip(part, -1.0, 1.0).reshape(-1, *leaf.shape) + 1.0) / 2.0
            return np.clip(low + share * (high - low), low, high).astype(leaf.dtype)

        return scaled
    ends: Sequence[int] = np.cumsum(_sizes(space))[:-1].tolist()
    choose = _from_choices(leaf)
    return lambda part: choose(np.stack([logits.argmax(1) for logits in np.split(part, ends, axis=1)], axis=1))


@dataclass(frozen=True)
class EnvFunction:
    """Builds an env as `function` does; one whose `reset` has no `options` is wrapped."""

    function: Callable[[], gym.Env]

    def __call__(self) -> gym.Env:
        env = self.function()
        return env if not isinstance(env, gym.Env) or _takes_options(env) else ResetWithoutOptions(env)


def backend_for(makers: list[Any], backend: str) -> str:
    """The backend for functions that build envs. What cannot be sent to processes stays in this one with "auto", as in
    `DummyVecEnv`, and is rejected with "process"."""
    if backend not in ("auto", "process"):
        return backend
    try:
        cloudpickle.dumps(makers)
    except Exception as error:  # pickling fails in many ways
        why = f"the functions that build envs cannot be sent to worker processes ({error})"
        if backend == "process":
            advice = "make what they use inside of them, or give backend='serial'"
            raise WorldError(f"{why}: {advice}") from error
        say(f"backend='serial': {why}")
        return "serial"
    return backend


class ResetWithoutOptions(gym.Wrapper):
    """Passes no `options` to `reset` unless there are some."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=seed, options=options) if options else self.env.reset(seed=seed)


def _takes_options(env: gym.Env) -> bool:
    """Whether `reset` takes options, in the env and in all of its wrappers."""
    layer: Any = env
    while True:
        parameters = inspect.signature(layer.reset).parameters
        if "options" not in parameters and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return False
        if not isinstance(layer, gym.Wrapper):
            return True
        layer = layer.env
