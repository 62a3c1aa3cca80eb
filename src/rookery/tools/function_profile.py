"""The time of each function in the steps and resets of one env."""

from __future__ import annotations

import cProfile
import math
import re
import sysconfig
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from rookery.engine.autotune import has_masks, legal
from rookery.engine.env_factory import EnvFactory
from rookery.engine.snapshot import wrapper_chain

MOST_SECONDS = 2.0  # for each of the two passes, if the number of steps is not given
DEFAULT_STEPS = 2000


@dataclass(frozen=True)
class FunctionTime:
    """One function's share of the time of all steps (or all resets)."""

    name: str
    where: str  # file:line, or "" for compiled code
    calls: float  # per step
    share: float  # including the functions that it calls
    own_share: float
    library: bool  # not the user's own code


@dataclass(frozen=True)
class StepProfile:
    """Times come from a pass without the profiler, shares from a pass with it."""

    steps: int
    resets: int
    step_seconds: float  # one step
    reset_seconds: float  # one reset
    step_functions: list[FunctionTime]
    reset_functions: list[FunctionTime]
    wrappers: list[str]  # outermost first, then the env

    @property
    def reset_share(self) -> float:
        """Share of resets in the time of steps and resets."""
        resets = self.resets * self.reset_seconds
        return resets / (resets + self.steps * self.step_seconds)


class _Timer:
    """Adds up the time of calls."""

    def __init__(self) -> None:
        self.calls, self.seconds = 0, 0.0

    def __call__(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - start
            self.calls += 1


class _Profiler:
    """Profiles calls, and nothing between them."""

    def __init__(self) -> None:
        self.profile, self.calls = cProfile.Profile(), 0

    def __call__(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.profile.runcall(function, *args, **kwargs)

    def functions(self) -> list[FunctionTime]:
        return _as_shares(self.profile.getstats(), self.calls)


def profile_steps(source: EnvFactory, steps: int | None = None) -> StepProfile:
    """Step one env with random actions, resetting at ends: once with a timer, once with the profiler."""
    env = source.make(0)
    try:
        env.action_space.seed(0)
        step, reset = _Timer(), _Timer()
        _step_env(env, step, reset, steps)
        profiled_step, profiled_reset = _Profiler(), _Profiler()
        _step_env(env, profiled_step, profiled_reset, min(step.calls, steps or DEFAULT_STEPS))
        # The first reset starts an episode that may not end: it counts for the duration, not for the number.
        return StepProfile(
            steps=step.calls,
            resets=reset.calls - 1,
            step_seconds=step.seconds / step.calls,
            reset_seconds=reset.seconds / reset.calls,
            step_functions=profiled_step.functions(),
            reset_functions=profiled_reset.functions(),
            wrappers=[type(layer).__name__ for layer in wrapper_chain(env)],
        )
    finally:
        env.close()


def _step_env(env: gym.Env, step: Any, reset: Any, steps: int | None) -> None:
    actions = [env.action_space.sample() for _ in range(64)]
    deadline = math.inf if steps else time.perf_counter() + MOST_SECONDS
    last = reset(env.reset, seed=0, options=None)
    masked = has_masks(env.action_space, last)
    for k in range(steps or DEFAULT_STEPS):
        action = actions[k % len(actions)]
        last = step(env.step, legal(env.action_space, action, last) if masked else action)
        _, _, terminated, truncated, _ = last
        if time.perf_counter() > deadline:
            return
        if terminated or truncated:
            last = reset(env.reset, seed=None, options=None)


def _as_shares(entries: Iterable[Any], calls: int) -> list[FunctionTime]:
    """The profiler's entries as shares, the largest first."""
    kept = [entry for entry in entries if "_lsprof.Profiler" not in str(entry.code)]
    total = sum(entry.inlinetime for entry in kept) or 1.0
    found = [_function(entry, total, calls) for entry in kept]
    return sorted(found, key=lambda f: (-f.share, -f.own_share))


def _function(entry: Any, total: float, calls: int) -> FunctionTime:
    share, own = min(1.0, entry.totaltime / total), entry.inlinetime / total
    count = entry.callcount / max(1, calls)
    if isinstance(entry.code, str):  # compiled
        return FunctionTime(_compiled_name(entry.code), "", count, share, own, library=True)
    code = entry.code
    path = Path(code.co_filename)
    return FunctionTime(
        code.co_qualname, f"{_short(path)}:{code.co_firstlineno}", count, share, own, library=_is_library(path)
    )


def _compiled_name(text: str) -> str:
    """
    >>> _compiled_name("<built-in method numpy.array>"), _compiled_name("<method 'clip' of 'numpy.ndarray' objects>")
    ('numpy.array', 'numpy.ndarray.clip')
    """
    method = re.match(r"<method '(.+)' of '(.+)' objects>", text)
    return (
        f"{method[2]}.{method[1]}" if method else text.strip("<>").removeprefix("built-in method ").split(" at 0x")[0]
    )


def _short(path: Path) -> str:
    """A short form of a path."""
    for root in _library_roots():
        if path.is_relative_to(root):
            parts = path.relative_to(root).parts
            return "/".join(parts if len(parts) < 3 else (parts[0], "..", parts[-1]))
    return path.name


def _is_library(path: Path) -> bool:
    return str(path).startswith("<frozen") or any(path.is_relative_to(root) for root in _library_roots())


def _library_roots() -> list[str]:
    """Innermost first: site-packages is inside the folder of the standard library."""
    paths = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
    return sorted((path for path in paths if path), key=len, reverse=True)
