"""How Stable-Baselines3 resets envs: with options only where there are some, so that an env may do without them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym


@dataclass(frozen=True)
class EnvFunction:
    """Builds an env as `function` does; one whose `reset` has no `options` is wrapped."""

    function: Callable[[], gym.Env]

    def __call__(self) -> gym.Env:
        env = self.function()
        return env if not isinstance(env, gym.Env) or _takes_options(env) else ResetWithoutOptions(env)


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
