"""Wrappers that every env gets: Gymnasium wrappers, functions of an env, reward functions, and a size for images.

Images are shrunk in the env's own worker. Each pixel becomes the average of the area that it covers. Bytes are averaged
as integers and rounded, so that every machine computes the same image. 1000 x 1000 x 3 to 84 x 84 takes 3 ms.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium import wrappers as gymnasium_wrappers

from rookery.engine.snapshot import wrapper_chain
from rookery.errors import OptionError, WorldError
from rookery.learners.plain_spaces import StackedBox, image_axes
from rookery.user_code import find_in_file

REWARD_ARGUMENTS = ("observation", "action", "reward", "terminated", "truncated", "info")


class RewardFunction(gym.Wrapper):
    """Replaces each reward by what a function returns. The function names what it needs, among `observation`, `action`,
    `reward`, `terminated`, `truncated` and `info`:

    >>> def alive(reward, info):
    ...     return 0.1 * reward
    >>> env = RewardFunction(gym.make("CartPole-v1"), alive)
    >>> env.reset(seed=1)[0].shape, env.step(0)[1]
    ((4,), 0.1)
    """

    def __init__(self, env: gym.Env, function: Callable[..., float]) -> None:
        super().__init__(env)
        self._function, self._names = function, tuple(inspect.signature(function).parameters)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        known = dict(zip(REWARD_ARGUMENTS, (observation, action, reward, terminated, truncated, info), strict=True))
        reward = float(self._function(**{name: known[name] for name in self._names}))
        return observation, reward, terminated, truncated, info


@dataclass(frozen=True)
class EnvWrapper:
    """One wrapper, with its name for messages. It is sent to workers, which find "file.py:Name" again by themselves."""

    name: str
    wrapper: Callable[..., Any] | None  # None: it is found by its name
    is_reward: bool

    def __call__(self, env: gym.Env) -> gym.Env:
        wrapper = find_in_file(self.name, "wrappers") if self.wrapper is None else self.wrapper
        wrapped = RewardFunction(env, wrapper) if self.is_reward else wrapper(env)
        if not isinstance(wrapped, gym.Env):
            raise WorldError(f"the wrapper {self.name} should return a gymnasium.Env, but it returned {wrapped!r:.80}")
        return wrapped


def as_wrappers(wrappers: Any) -> tuple[EnvWrapper, ...]:
    """What the user gave as `wrappers`, checked: classes, functions, or "file.py:Name"."""
    if wrappers is None:
        return ()
    if not isinstance(wrappers, (list, tuple)):
        wrappers = [wrappers]
    return tuple(_as_wrapper(wrapper) for wrapper in wrappers)


def _as_wrapper(wrapper: Any) -> EnvWrapper:
    if isinstance(wrapper, str):
        path, _, attribute = wrapper.rpartition(":")
        found = find_in_file(wrapper, "wrappers")
        _check_takes_an_env(found, attribute)
        if not path.endswith(".py"):
            return EnvWrapper(wrapper, found, False)
        # Workers do not import the running script, which would run again: they get its classes by value.
        sent = found if found.__module__ == "__main__" else None
        return EnvWrapper(f"{Path(path).resolve()}:{attribute}", sent, _is_reward_function(found, wrapper))
    if not callable(wrapper):
        raise OptionError(f"a wrapper should be a gymnasium.Wrapper class or a function of an env, got {wrapper!r:.80}")
    name = getattr(wrapper, "__name__", repr(wrapper))
    _check_takes_an_env(wrapper, name)
    return EnvWrapper(name, wrapper, _is_reward_function(wrapper, name))


def _check_takes_an_env(wrapper: Any, name: str) -> None:
    """Refuse a class that needs more than the env, such as a time limit."""
    try:
        inspect.signature(wrapper).bind(None)
    except ValueError:  # it has no signature
        return
    except TypeError as error:
        if isinstance(wrapper, type):
            raise OptionError(
                f"the wrapper {name} needs more than the env ({error}): give a function at the top of your file, such "
                f"as `def wrap(env): return {name}(env, ...)`"
            ) from None


def _is_reward_function(function: Callable[..., Any], name: str) -> bool:
    """Whether its parameters say that it computes a reward, rather than wraps an env."""
    if isinstance(function, type):
        return False
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return False
    known = [parameter for parameter in names if parameter in REWARD_ARGUMENTS]
    if known and len(known) < len(names):
        raise OptionError(
            f"the reward function {name} takes {', '.join(names)}; its parameters must be among "
            f"{', '.join(REWARD_ARGUMENTS)}"
        )
    return bool(known)


# --- images -----------------------------------------------------------------------------------------------------------

Size = tuple[int, int]  # height and width
ImageSize = Literal["auto", "full"] | Size

USUAL_SIZE: Size = (84, 84)  # that of the classic network for Atari
MANY_PIXELS = 256 * 256  # "auto" shrinks images that have more of them
SECOND_VIEW = "obs_agent_two"  # the info with the second player's observation, in two-player worlds


def size_of(image_size: Any) -> ImageSize:
    """The config key `image_size` as height and width; one number is both."""
    if isinstance(image_size, str):
        return image_size  # type: ignore[return-value]
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    return int(height), int(width)


def largest_image(space: gym.Space) -> int:
    """The number of pixels of the largest image of an observation; 0 if there is none."""
    parts = _parts(space)
    if parts is not None:
        return max((largest_image(part) for part in parts.values()), default=0)
    axes = image_axes(space)
    if axes is None or space.shape is None:
        return 0
    return int(space.shape[axes[0]] * space.shape[axes[1]])


def with_image_size(env: gym.Env, size: ImageSize) -> gym.Env:
    """The env with its images shrunk: to a given size, or with "auto" only if one has more than 256 x 256 pixels."""
    if size == "full":
        return env
    pixels = largest_image(env.observation_space)
    if size == "auto":
        return ResizeImages(env, USUAL_SIZE) if pixels > MANY_PIXELS else env
    if not pixels:
        raise OptionError(
            f"`image_size` = {list(size)}: the observation has no image, it is {env.observation_space}; "
            "omit `image_size`"
        )
    return ResizeImages(env, size)


class ResizeImages(gym.Wrapper):
    """Shrinks every image of an observation to a height and width. Sides that are shorter already stay.

    >>> env = ResizeImages(gym.make("CartPole-v1"), (84, 84))
    >>> env.observation_space.shape  # no image, nothing to shrink
    (4,)
    """

    def __init__(self, env: gym.Env, size: Size) -> None:
        super().__init__(env)
        self.size = size
        self.observation_space, self._shrink = _shrunk(env.observation_space, size)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._shrink(observation), self._with_second_view(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._shrink(observation), reward, terminated, truncated, self._with_second_view(info)

    def _with_second_view(self, info: dict[str, Any]) -> dict[str, Any]:
        return {**info, SECOND_VIEW: self._shrink(info[SECOND_VIEW])} if SECOND_VIEW in info else info


# --- spaces and observations ------------------------------------------------------------------------------------------


def _parts(space: gym.Space) -> dict[Any, gym.Space] | None:
    """The parts of a composite space, by key or position."""
    if isinstance(space, spaces.Dict):
        return dict(space.items())
    return dict(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else None


def _shrunk(space: gym.Space, size: Size) -> tuple[gym.Space, Callable[[Any], Any]]:
    """A space with smaller images, and the function that makes an observation one of it."""
    parts = _parts(space)
    if parts is not None:
        made = {key: _shrunk(part, size) for key, part in parts.items()}
        functions = {key: function for key, (_, function) in made.items()}
        if isinstance(space, spaces.Dict):
            return spaces.Dict({key: part for key, (part, _) in made.items()}), partial(_shrink_dict, functions)
        return spaces.Tuple([part for part, _ in made.values()]), partial(_shrink_tuple, functions)
    axes = image_axes(space)
    if axes is None or all(space.shape[axis] <= side for axis, side in zip(axes, size, strict=True)):  # type: ignore[index]
        return space, _unchanged
    assert isinstance(space, spaces.Box)
    shape = list(space.shape)
    for axis, side in zip(axes, size, strict=True):
        shape[axis] = min(shape[axis], side)
    box = spaces.Box(space.low.min(), space.high.max(), tuple(shape), space.dtype.type)
    return box, partial(_shrink_image, axes=axes, size=(shape[axes[0]], shape[axes[1]]))


def _unchanged(observation: Any) -> Any:
    return observation


def _shrink_dict(functions: dict[Any, Callable[[Any], Any]], observation: Any) -> dict[Any, Any]:
    return {key: function(observation[key]) for key, function in functions.items()}


def _shrink_tuple(functions: dict[Any, Callable[[Any], Any]], observation: Any) -> tuple[Any, ...]:
    return tuple(function(observation[key]) for key, function in functions.items())


def _shrink_image(image: Any, axes: tuple[int, int], size: Size) -> np.ndarray:
    return shrink_image(np.asarray(image), axes, size)


def shrink_image(image: np.ndarray, axes: tuple[int, int], size: Size) -> np.ndarray:
    """The averages of equal areas; of integers, rounded.

    >>> shrink_image(np.array([[0, 10, 20], [30, 40, 50]], np.uint8), (0, 1), (1, 3))
    array([[15, 25, 35]], dtype=uint8)
    """
    exact = np.issubdtype(image.dtype, np.integer)
    area = image.shape[axes[0]] * image.shape[axes[1]]
    sums = image
    for axis, side, small in zip(axes, size, (image.dtype == np.uint8, False), strict=True):
        sums = _area_sums(sums, axis, side, np.int32 if small else np.int64 if exact else np.float64)
    return ((2 * sums + area) // (2 * area) if exact else sums / area).astype(image.dtype)


def _area_sums(values: np.ndarray, axis: int, size: int, dtype: Any) -> np.ndarray:
    """Sums over `size` equal parts of an axis, multiplied by `size`: a part begins and ends within a pixel, and whole
    pixels then count as `size`."""
    parts = np.moveaxis(values, axis, 0)
    edges = np.arange(size + 1) * len(parts)
    pixels, rests = edges // size, edges % size
    sums = _sums_between(parts, pixels, dtype)
    sums *= size
    for k in np.flatnonzero(rests):  # a pixel that is cut belongs to two parts
        cut = parts[pixels[k]] * dtype(rests[k])
        sums[k - 1] += cut
        sums[k] -= cut
    return np.moveaxis(sums, 0, axis)


def _sums_between(values: np.ndarray, bounds: np.ndarray, dtype: Any) -> np.ndarray:
    if values.dtype != np.uint8:
        return np.add.reduceat(values, bounds[:-1], 0, dtype)
    # Of bytes, a sum for each part takes a fifth of the time: they are not copied as larger numbers first.
    sums = np.empty((len(bounds) - 1, *values.shape[1:]), dtype)
    for k, (low, high) in enumerate(pairwise(bounds.tolist())):
        sums[k] = values[low:high].sum(0, dtype=dtype)
    return sums


# --- stacks -----------------------------------------------------------------------------------------------------------

# They leave observations as they are, or change each frame in the same way.
KEEP_STACKS = (
    gymnasium_wrappers.TimeLimit,
    gymnasium_wrappers.OrderEnforcing,
    gymnasium_wrappers.PassiveEnvChecker,
    gymnasium_wrappers.RecordEpisodeStatistics,
    gym.RewardWrapper,
    RewardFunction,
    ResizeImages,
)


def space_of_stacks(env: gym.Env, space: gym.Space) -> gym.Space:
    """The observation space as a `StackedBox` if it is certain that observations are stacks of the latest frames: the
    env says so, or Gymnasium's wrapper makes them.

    >>> env = gymnasium_wrappers.FrameStackObservation(gym.make("CartPole-v1"), 3)
    >>> type(space_of_stacks(env, env.observation_space)).__name__
    'StackedBox'
    """
    for layer in wrapper_chain(env):
        if isinstance(layer, gymnasium_wrappers.FrameStackObservation):
            return StackedBox.of(space)
        if isinstance(layer, gym.Wrapper) and not isinstance(layer, KEEP_STACKS):
            return space.as_box() if isinstance(space, StackedBox) else space
    return StackedBox.of(space) if isinstance(env.unwrapped.observation_space, StackedBox) else space
