"""For tests of your own envs: `check_world` looks for problems in an env."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym

from rookery.engine.env_factory import EnvFactory, EnvFromWorld, kernel_of, resolve_given
from rookery.errors import OptionError
from rookery.kernel.two_players import TwoPlayerWorld
from rookery.tools.world_report import Watch, WorldReport

__all__ = ["WorldReport", "check_world"]


def check_world(env_or_world: Any, *, steps: int = 200, seed: int = 0, watch: Watch | None = None) -> WorldReport:
    """Step a world with random actions (legal ones, if its infos have an `action_mask`), and report problems.

    Args:
        env_or_world: What `make_vec` takes (a Gymnasium id, a class, a callable, `"file.py:MyEnv"`), or an env
            instance; with an instance, checks that need a second env are skipped.
        steps: Number of steps.
        seed: Seed of the env and of the actions.
        watch: Called with what is being done; `rookery check` uses it. It also runs the env in a process of its own,
        which
            an env that crashes or hangs cannot take along: in Python such an env ends or stops this process.

    Example:
        >>> from rookery.testing import check_world
        >>> report = check_world("CartPole-v1")
        >>> report.raise_if_bad()
        >>> report.ok, report.problems
        (True, [])
    """
    from rookery.tools.env_checks import EnvChecker

    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise OptionError(f"steps should be a positive integer, got {steps!r}")
    source, single = _source(env_or_world)
    report = WorldReport(source.name, steps)
    EnvChecker(source, single, report, steps, seed, watch or Watch()).run()
    return report


def _source(env_or_world: Any) -> tuple[EnvFactory, bool]:
    """The factory, and whether it returns a single given instance."""
    if isinstance(env_or_world, gym.Env):
        env = env_or_world
        return EnvFactory((lambda: env,), type(env.unwrapped).__name__, endless=True), True
    source = resolve_given(env_or_world)
    kernel = kernel_of(source)
    if kernel is not None and kernel.world.num_agents == 2:  # as opponents play it
        return replace(source, makers=(EnvFromWorld(TwoPlayerWorld(kernel.world)),)), False
    return source, False
