"""A run that is there already, with its agent: what evaluating, watching and exporting begin with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.config import RunConfig, gather, resolve
from rookery.engine.seeding import child_seed
from rookery.learners.agent import Agent
from rookery.training.evaluation.evaluator import EVALUATION_KEY
from rookery.training.resolve.world_choice import World, find_again
from rookery.training.storage.load_agent import agent_from, load_checkpoint
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.trust import check_code


@dataclass(frozen=True)
class TrainedRun:
    """A run's agent as it was at `step`. `saved` are the parts of the checkpoint that were asked for."""

    run: RunDir
    config: RunConfig
    step: int
    agent: Agent
    saved: dict[str, Any]
    trust: bool = False

    @property
    def world(self) -> World:
        """The world it was trained in."""
        self.check_code()
        return find_again(self.config)

    def check_code(self) -> None:
        """Ask before the world's code is imported, unless this user trained with it here."""
        check_code(self.run, [self.config.world] if ".py:" in self.config.world else [], self.trust)

    @property
    def seed(self) -> int:
        """That of the run's own evaluations."""
        seed = self.config.evaluation.seed
        return child_seed(self.config.seed, EVALUATION_KEY) if seed is None else seed


def open_run(
    run: str | Path, runs_dir: str | Path, best: bool, parts: tuple[str, ...] = ("agent",), trust: bool = False
) -> TrainedRun:
    """Read a run, by its name, its path or as "latest", at its last checkpoint or at its best. `trust` lets its world's
    code run without a question."""
    found = RunDir.find(run, Path(runs_dir))
    config = resolve(gather(found.read_config()))
    step, saved = load_checkpoint(found, best, parts)
    agent = agent_from(saved["agent"])
    agent.deterministic = config.evaluation.deterministic
    return TrainedRun(found, config, step, agent, saved, trust)
