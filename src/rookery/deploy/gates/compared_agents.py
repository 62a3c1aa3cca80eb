"""The agents of a comparison, and the world that both of them can play in."""

from __future__ import annotations

from dataclasses import dataclass

from rookery.errors import RegistryError
from rookery.learners.agent import Agent
from rookery.training.evaluation.evaluate_run import TrainedRun, open_run
from rookery.training.players.agents import AgentPlayer
from rookery.training.resolve.world_choice import World
from rookery.training.storage.run_dir import RunDir

SPACES = (("observation_space", "observes"), ("action_space", "acts in"))


@dataclass(frozen=True)
class ComparedAgent:
    """One of the agents of a comparison."""

    trained: TrainedRun

    @property
    def agent(self) -> Agent:
        return self.trained.agent

    def player(self) -> AgentPlayer:
        """As it plays evaluation episodes: deterministic if its own evaluations were."""
        deterministic = self.trained.config.evaluation.deterministic
        return AgentPlayer(self.agent, "agent", deterministic=deterministic, copy=False)


def open_compared(run: RunDir, checkpoint: str, trust: bool) -> ComparedAgent:
    """The agent of a run's best or latest checkpoint."""
    return ComparedAgent(open_run(run.path, run.path.parent, checkpoint == "best", trust=trust))


def fitting_world(candidate: ComparedAgent, champion: ComparedAgent, same_spaces: bool = True) -> World:
    """The champion's world: it is what the agent in use is for. A candidate from elsewhere is refused. Players of a
    game may have other spaces than each other: they are seated later."""
    mine, theirs = candidate.trained.config.world, champion.trained.config.world
    if mine != theirs:
        raise RegistryError(
            f"the candidate was trained in {mine}, and the champion in {theirs}: they cannot be compared; name another "
            "folder with --to"
        )
    for name, what in SPACES if same_spaces else ():
        ours, others = getattr(candidate.agent, name), getattr(champion.agent, name)
        if ours != others:
            raise RegistryError(
                f"the candidate {what} {ours}, and the champion {others}: they cannot be compared in one world; name "
                "another folder with --to"
            )
    return champion.trained.world
