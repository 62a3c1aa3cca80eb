"""A run that is there already, with its agent: what evaluating, watching and exporting begin with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.config import RunConfig, gather, resolve
from rookery.engine.seeding import child_seed
from rookery.learners.agent import Agent
from rookery.training.checkpoint import Checkpoints
from rookery.training.load import agent_from
from rookery.training.rundir import RunDir
from rookery.training.setup import EVALUATION_KEY
from rookery.training.world import World, find


@dataclass(frozen=True)
class Trained:
    """A run's agent as it was at `step`. `saved` are the parts of the checkpoint that were asked for."""

    run: RunDir
    config: RunConfig
    step: int
    agent: Agent
    saved: dict[str, Any]

    @property
    def world(self) -> World:
        """The world it was trained in."""
        config = self.config
        return find(config.world, config.takes_twin, config.learner, config.world_options)

    @property
    def seed(self) -> int:
        """That of the run's own evaluations."""
        seed = self.config.evaluation.seed
        return child_seed(self.config.seed, EVALUATION_KEY) if seed is None else seed


def open_run(run: str | Path, runs_dir: str | Path, best: bool, parts: tuple[str, ...] = ("agent",)) -> Trained:
    """Read a run, by its name, its path or as "latest", at its last checkpoint or at its best."""
    found = RunDir.find(run, Path(runs_dir))
    config = resolve(gather(found.read_config()))
    checkpoints = Checkpoints(found.checkpoints)
    step, saved = checkpoints.load_best(only=parts) if best else checkpoints.load_latest(only=parts)
    agent = agent_from(saved["agent"])
    agent.likeliest = config.evaluation.deterministic
    return Trained(found, config, step, agent, saved)
