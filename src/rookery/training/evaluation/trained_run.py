"""A run's agent, and what is known about how it was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from rookery.config import RunConfig, build_config
from rookery.errors import UsageError
from rookery.gate import allow_given
from rookery.learners.agent import Agent
from rookery.learners.saved_agent import saved_agent
from rookery.training.resolve.resolved_run import ResolvedRun, evaluation_seed, resolve_recorded_run
from rookery.training.resolve.session_world import SessionWorld, session_world
from rookery.training.resolve.world_choice import World
from rookery.training.storage.load_agent import agent_from, load_checkpoint
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.trust import check_run


class HasAgent(Protocol):
    """The result of a training."""

    @property
    def agent(self) -> Agent: ...


AgentOrRun = str | Path | Agent | HasAgent  # how users say which agent they mean


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
        return resolve_recorded_run(self.config, world_object=self.agent.source)

    @property
    def world(self) -> World:
        return self.resolved.world

    def check_code(self) -> None:
        """Ask the user before the world's code is imported, unless this user trained with it here."""
        check_run(self.run, self.config, self.trust, playing=True)

    @property
    def seed(self) -> int:
        """The seed of the run's own evaluations."""
        return evaluation_seed(self.config)


def open_run(
    run: AgentOrRun, runs_dir: str | Path, best: bool = True, parts: tuple[str, ...] = ("agent",), trust: bool = False
) -> TrainedRun:
    """Read a run that the user names: by its name, its path or as "latest", at its best checkpoint or at its last. Of
    an agent, or the result of a training, it is the run that it is from, with the agent as it is. `trust` lets the
    world's code run without a question."""
    if not isinstance(run, (str, Path)):
        return _run_of(getattr(run, "agent", run), parts, trust)
    allow_given(run)
    found = RunDir.find(run, Path(runs_dir))
    config = build_config(found.read_config())
    step, saved = load_checkpoint(found, best, parts, trust)
    agent = agent_from(saved["agent"])
    agent.deterministic = config.evaluation.deterministic
    return TrainedRun(found, config, step, agent, saved, trust)


def _run_of(agent: Any, parts: tuple[str, ...], trust: bool) -> TrainedRun:
    if not isinstance(agent, Agent):
        raise UsageError(f"expected an agent, the result of rookery.train, or the name of a run, got {agent!r:.80}")
    if agent.run is None:
        raise UsageError(
            "this agent is not of a run, so that its world is not known: give `world`, or the run that it is from"
        )
    found = RunDir(agent.run)
    saved = load_checkpoint(found, False, parts, trust)[1] if len(parts) > 1 else {}
    config = build_config(found.read_config())
    return TrainedRun(found, config, agent.steps or 0, agent, {**saved, "agent": saved_agent(agent)}, trust)


def open_agent(agent: AgentOrRun, runs_dir: str | Path, best: bool, trust: bool) -> TrainedRun:
    """The same for what needs no world: agents without a run are taken too."""
    found = getattr(agent, "agent", agent)
    if isinstance(found, Agent) and (found.run is None or not found.run.is_dir()):
        return agent_in(found, found.world or "unknown", {})
    return open_run(agent, runs_dir, best, parts=("agent", "envs"), trust=trust)


def agent_in(agent: Agent, world: Any, options: Mapping[str, Any]) -> TrainedRun:
    """An agent without a run, in a world that the user names or gives."""
    found = session_world(world) if not isinstance(world, str) else SessionWorld(world)
    config = build_config(found.name, world_options={**(found.options or {}), **options}, backend="serial")
    agent.source = found.source
    return TrainedRun(RunDir(Path("agent")), config, agent.steps or 0, agent, {"agent": saved_agent(agent)}, True)
