"""How Stable-Baselines3 resets envs: with options only where there are some, so that an env may do without them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cloudpickle
import gymnasium as gym

from rookery.console import say
from rookery.errors import WorldError


@dataclass(frozen=True)
class EnvFunction:
    """Builds an env as `function` does; one whose `reset` has no `options` is wrapped."""

    function: Callable[[], gym.Env]

    def __call__(self) -> gym.Env:
        env = self.function()
        return env if not isinstance(env, gym.Env) or _takes_options(env) else ResetWithoutOptions(env)


def backend_for(makers: list[Any], backend: str) -> str:
    """The backend for functions that build envs. What cannot be sent to processes stays in this one with "auto", as in
    `DummyVecEnv`, and is refused with "process"."""
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
