"""A finished run with its agent: evaluating, watching and exporting begin here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rookery.config import RunConfig, build_config
from rookery.gate import allow_given
from rookery.learners.agent import Agent
from rookery.training.resolve.resolved_run import ResolvedRun, evaluation_seed, resolve_recorded_run
from rookery.training.resolve.world_choice import World
from rookery.training.storage.load_agent import agent_from, load_checkpoint
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.trust import check_run


@dataclass(frozen=True)
class TrainedRun:
    """A run's agent as it was at `step`. `saved` holds the parts of the checkpoint that were read."""

    run: RunDir
    config: RunConfig
    step: int
    agent: Agent
    saved: dict[str, Any]
    trust: bool = False

    @cached_property
    def resolved(self) -> ResolvedRun:
        """The run as it was trained. This imports the world's code, if it is in a file."""
        self.check_code()
        return resolve_recorded_run(self.config)

    @property
    def world(self) -> World:
        """The world it was trained in."""
        return self.resolved.world

    def check_code(self) -> None:
        """Ask the user before the world's code is imported, unless this user trained with it here."""
        check_run(self.run, self.config, self.trust, playing=True)

    @property
    def seed(self) -> int:
        """The seed of the run's own evaluations."""
        return evaluation_seed(self.config)


def open_run(
    run: str | Path, runs_dir: str | Path, best: bool, parts: tuple[str, ...] = ("agent",), trust: bool = False
) -> TrainedRun:
    """Read a run that the user names: by its name, its path or as "latest", at its last checkpoint or at its best.
    `trust` lets its world's code run without a question."""
    allow_given(run)
    found = RunDir.find(run, Path(runs_dir))
    config = build_config(found.read_config())
    step, saved = load_checkpoint(found, best, parts, trust)
    agent = agent_from(saved["agent"])
    agent.deterministic = config.evaluation.deterministic
    return TrainedRun(found, config, step, agent, saved, trust)
