"""Episodes that compiled code plays are those that Python plays."""

from __future__ import annotations

from contextlib import closing

import pytest
import torch

from rookery.learners.agent import Agent
from rookery.learners.registry import make_policy, option_classes
from rookery.training.evaluation.compiled_episodes import FusedEpisodes, episodes_for
from rookery.training.evaluation.episodes import EpisodeEnvs, Episodes, PlayedEpisode
from rookery.training.players.agents import AgentPlayer
from rookery.training.resolve.world_choice import World, find

EPISODES = 20


@pytest.fixture(scope="module")
def world() -> World:
    return find("CartPole-v1", True)


def agent_for(world: World, seed: int) -> Agent:
    torch.manual_seed(seed)
    policy = make_policy("ppo", *world.spaces, option_classes()["ppo"](hidden=[8]))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    return Agent(policy, *world.spaces, torch.device("cpu"))


def played(world: World, kind: type[Episodes], agent: Agent, envs: int) -> list[PlayedEpisode] | None:
    with closing(EpisodeEnvs(world, "kernel", envs, envs)) as made:
        player = AgentPlayer(agent, "agent", deterministic=True, copy=False)
        return kind(made, player, 5, range(EPISODES)).play()


@pytest.mark.parametrize("envs", [1, 7, EPISODES])
def test_returns_and_lengths_are_equal_to_the_bit(world: World, envs: int) -> None:
    for seed in range(3):
        agent = agent_for(world, seed)
        fused = played(world, FusedEpisodes, agent, envs)
        assert fused == played(world, Episodes, agent, envs)
        assert fused is not None and len(fused) == EPISODES


def test_only_the_most_likely_action_is_taken_by_compiled_code(world: World) -> None:
    agent = agent_for(world, 0)
    with closing(EpisodeEnvs(world, "kernel", 2, 2)) as envs:
        for deterministic, kind in ((True, FusedEpisodes), (False, Episodes)):
            assert episodes_for(envs, AgentPlayer(agent, "agent", deterministic=deterministic, copy=False)) is kind
