"""Wrappers that every env gets: Gymnasium wrappers, functions of an env, and reward functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from rookery.errors import OptionError, WorldError
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
    if isinstance(wrappers, str) or callable(wrappers):
        wrappers = [wrappers]
    return tuple(_as_wrapper(wrapper) for wrapper in wrappers)


def _as_wrapper(wrapper: Any) -> EnvWrapper:
    if isinstance(wrapper, str):
        path, _, attribute = wrapper.rpartition(":")
        found = find_in_file(wrapper, "wrappers")
        # Workers do not import the running script, which would run again: they get its classes by value.
        sent = found if found.__module__ == "__main__" else None
        return EnvWrapper(f"{Path(path).resolve()}:{attribute}", sent, _is_reward_function(found, wrapper))
    if not callable(wrapper):
        raise OptionError(f"a wrapper should be a gymnasium.Wrapper class or a function of an env, got {wrapper!r:.80}")
    name = getattr(wrapper, "__name__", repr(wrapper))
    return EnvWrapper(name, wrapper, _is_reward_function(wrapper, name))


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
