"""What a run returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rookery.learners.agent import Agent


@dataclass(frozen=True, eq=False)
class Result(Mapping[str, Any]):
    """Returned by `rookery.train`; `result["mean_reward"]` works as well as `result.mean_reward`."""

    run_name: str
    path: Path
    agent: Agent
    total_steps: int
    episodes: int
    mean_reward: float  # of the last 100 episodes; NaN if none was finished
    evaluation: float | None  # mean return of the last evaluation
    best_evaluation: float | None
    seconds: float
    steps_per_second: float  # of training: without evaluations, and without the first round, which may compile
    num_envs: int
    reason: str  # "finished", "goal reached", "interrupted"
    exit_code: int = 0

    def __getitem__(self, name: str) -> Any:
        if name not in list(self):
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(self))

    def __len__(self) -> int:
        return len(fields(self))

    def as_json(self) -> dict[str, Any]:
        """All but the agent, as plain values."""
        values = {name: value for name, value in self.items() if name != "agent"}
        values["mean_reward"] = None if self.mean_reward != self.mean_reward else self.mean_reward
        return values | {"path": str(self.path)}
