"""For users' own tests: `check_world` looks for what is wrong, or could be better, about an environment."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import gymnasium as gym

from rookery.engine.source import Source, resolve
from rookery.errors import OptionError, WorldError

__all__ = ["WorldReport", "check_world"]


@dataclass
class WorldReport:
    """What `check_world` found. `problems` will break training; `advice` would make it better."""

    world: str
    steps: int
    problems: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    steps_per_second: float = 0.0  # one env, resets included; 0 if it could not be stepped
    reset_seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.problems

    def raise_if_bad(self) -> None:
        """Raise a WorldError that lists all problems, if there are any."""
        if self.problems:
            raise WorldError(str(self))

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        count = len(self.problems)
        verdict = "no problems" if not count else "1 problem" if count == 1 else f"{count} problems"
        lines = [f"{self.world}: {verdict} in {self.steps} steps"]
        if self.steps_per_second:
            from rookery.tools import show

            lines[0] += (
                f"; {show.rate(self.steps_per_second)} steps/s, a reset takes {show.duration(self.reset_seconds)}"
            )
        lines += [f"  problem: {problem}" for problem in self.problems]
        lines += [f"  advice: {advice}" for advice in self.advice]
        return "\n".join(lines)


def check_world(env_or_world: Any, *, steps: int = 200, seed: int = 0) -> WorldReport:
    """Step a world with random actions, legal ones where its infos hold an `action_mask`, and report what is wrong.

    Args:
        env_or_world: What `make_vec` takes (a Gymnasium id, a class, a callable, `"file.py:MyEnv"`), or an env
            instance; of an instance, what needs a second one cannot be checked.
        steps: How many steps to look at.
        seed: For the env and for the actions.

    Example:
        >>> from rookery.testing import check_world
        >>> report = check_world("CartPole-v1")
        >>> report.raise_if_bad()
        >>> report.ok, report.problems
        (True, [])
    """
    from rookery.tools.checkup import Checkup

    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise OptionError(f"steps should be a positive integer, got {steps!r}")
    source, single = _source(env_or_world)
    report = WorldReport(source.name, steps)
    Checkup(source, single, report, steps, seed).run()
    return report


def _source(env_or_world: Any) -> tuple[Source, bool]:
    """The builder, and whether it can build only one: an instance that is at hand stands for itself."""
    if isinstance(env_or_world, gym.Env):
        env = env_or_world
        return Source((lambda: env,), type(env.unwrapped).__name__, endless=True), True
    return resolve(env_or_world), False
