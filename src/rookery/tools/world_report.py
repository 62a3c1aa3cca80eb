"""The report of `rookery check`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rookery.errors import WorldError


@dataclass
class WorldReport:
    """The result of `check_world`. `problems` break training; `advice` would improve the world."""

    world: str
    steps: int
    problems: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    steps_per_second: float = 0.0  # one env, resets included; 0 if it could not be stepped
    reset_seconds: float = 0.0
    batch_envs: int = 0  # of a kernel world: how many envs were stepped together, and how many steps all of them made
    batch_steps_per_second: float = 0.0

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
        from rookery import printing  # rich, which the command line's help does without

        count = len(self.problems)
        verdict = "no problems" if not count else "1 problem" if count == 1 else f"{count} problems"
        lines = [f"{self.world}: {verdict} in {self.steps} steps"]
        if self.steps_per_second:
            rate, reset = printing.rate(self.steps_per_second), printing.duration(self.reset_seconds)
            lines[0] += f"; one env makes {rate} steps/s, a reset takes {reset}"
        if self.batch_steps_per_second:
            lines.append(
                f"  {self.batch_envs:,} envs in a batch make {printing.rate(self.batch_steps_per_second)} steps/s"
            )
        lines += [f"  problem: {problem}" for problem in self.problems]
        lines += [f"  advice: {advice}" for advice in self.advice]
        return "\n".join(lines)
