"""Episodes side by side: each is what it would be alone, on any backend and beside any others."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from kernel.samples import Tug
from rookery.errors import RestartLimit
from rookery.learners.agent import Agent
from rookery.learners.registry import make_policy, option_classes
from rookery.training.evaluation.episodes import EpisodeEnvs, Episodes, PlayedEpisode
from rookery.training.evaluation.evaluator import Evaluator
from rookery.training.players.agents import AgentPlayer
from rookery.training.resolve.world_choice import World, find

SEED = 5


class Walk(gym.Env):
    """A walk with random steps, of random length, whose reward tells the action. Counts what is done to it."""

    action_space = spaces.Box(-1, 1, (1,), np.float32)
    observation_space: spaces.Space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    metadata = {"outcomes": ["last_place"]}
    steps = resets = 0  # of all walks

    def __init__(self, breaks: str = "") -> None:
        self.breaks = breaks

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        Walk.resets += 1
        self.place, self.left = self.np_random.normal(), int(self.np_random.integers(2, 12))
        if self.breaks == "once" and Walk.resets == 2:
            self.left = -1
        return self._seen(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        Walk.steps += 1
        if self.left < 0 or self.breaks == "always":
            raise RuntimeError("a leg broke")
        self.left -= 1
        self.place += self.np_random.normal() + float(np.sum(action))
        return self._seen(), float(np.sum(action)), self.left == 0, False, self._info()

    def _seen(self) -> Any:
        return np.array([self.place, self.left], np.float32)

    def _info(self) -> dict[str, Any]:
        return {"last_place": self.place, "is_success": self.place > 0}


class Choices(Walk):
    """The same with an observation of two parts, and choices that are not always allowed."""

    action_space = spaces.Discrete(3)
    observation_space = spaces.Dict(where=Walk.observation_space, odd=spaces.Discrete(2))

    def _seen(self) -> Any:
        return {"where": super()._seen(), "odd": self.left % 2}

    def _info(self) -> dict[str, Any]:
        return super()._info() | {"action_mask": np.array([self.left % 2, 1, self.left % 3 == 0], np.int8)}


def world_of(made: type[gym.Env], **kwargs: Any) -> World:
    return World(made.__name__, made, kernel=False, env_kwargs=kwargs)


def agent_for(world: World, **options: Any) -> Agent:
    made = world.source  # without starting a process that looks at its spaces
    seen, done = world.spaces if world.kernel else (made.observation_space, made.action_space)
    torch.manual_seed(0)
    policy = make_policy("ppo", seen, done, option_classes()["ppo"](hidden=[8], **options))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    return Agent(policy, seen, done, torch.device("cpu"))


def played(
    world: World, agent: Agent, count: int, backend: str = "serial", numbers: Any = range(7), **options: Any
) -> list[PlayedEpisode]:
    player = AgentPlayer(agent, "agent", deterministic=options.pop("deterministic", False), copy=False)
    with closing(EpisodeEnvs(world, backend, count, count, **options)) as envs:
        results = Episodes(envs, player, SEED, numbers).play()
    assert results is not None
    return results


@pytest.mark.parametrize(
    ("made", "options"),
    [(Walk, {}), (Walk, {"recurrent": 5}), (Choices, {})],
    ids=["vectors", "recurrent", "dict and masks"],
)
def test_an_episode_does_not_depend_on_the_others(made: type[gym.Env], options: dict[str, Any]) -> None:
    """Bit for bit, with sampled actions: alone, side by side, and with others."""
    world = world_of(made)
    agent = agent_for(world, **options)
    alone = played(world, agent, 1)
    assert len({(episode.total, episode.outcomes["last_place"]) for episode in alone}) == 7
    for count in (2, 3, 7):
        assert played(world, agent, count) == alone
    assert played(world, agent, 2, numbers=[6, 2]) == [alone[6], alone[2]]
    assert played(world, agent, 3, deterministic=True) != alone


@pytest.mark.few(1)
@pytest.mark.parametrize("backend", ["thread", "process"])
def test_it_does_not_depend_on_the_backend(backend: str) -> None:
    world = world_of(Choices)
    agent = agent_for(world)
    assert played(world, agent, 4, backend, workers=2) == played(world, agent, 1)


def test_compiled_worlds() -> None:
    """Side by side in one compiled loop, and as many times one by one."""
    world = find("CartPole-v1")
    assert world.kernel
    agent = agent_for(world)
    alone = played(world, agent, 1, numbers=range(12))
    assert played(world, agent, 5, numbers=range(12)) == played(world, agent, 12, numbers=range(12)) == alone
    assert all(episode.total == episode.length for episode in alone)


def test_no_step_and_no_reset_is_made_in_vain() -> None:
    """Envs without a further episode wait, whatever the others do."""
    world = world_of(Walk)
    agent = agent_for(world)
    Walk.steps = Walk.resets = 0
    results = played(world, agent, 4)
    assert Walk.steps == sum(episode.length for episode in results)
    assert Walk.resets == 7


def test_outcomes_are_those_of_the_last_step() -> None:
    results = played(world_of(Walk), agent_for(world_of(Walk)), 3)
    for episode in results:
        assert list(episode.outcomes) == ["success_rate", "last_place"]
        assert episode.outcomes["success_rate"] == (episode.outcomes["last_place"] > 0)


def test_an_episode_whose_env_fails_is_played_again() -> None:
    """With the same seed, so that it counts as if nothing had happened."""
    broken = world_of(Walk, breaks="once")
    agent = agent_for(broken)
    Walk.resets = 10
    wanted = played(broken, agent, 3)
    Walk.resets = 0
    assert played(broken, agent, 3, on_failure="restart") == wanted
    with pytest.raises(RuntimeError, match="a leg broke"):
        played(world_of(Walk, breaks="always"), agent, 3)
    with pytest.raises(RestartLimit):
        played(world_of(Walk, breaks="always"), agent, 3, on_failure="restart")


@pytest.mark.few(1)
@pytest.mark.parametrize("backend", ["serial", "process"])
def test_an_evaluation_can_be_stopped_and_begun_again(backend: str) -> None:
    """In the middle of its episodes; the next one is not disturbed."""
    world = world_of(Walk)
    agent = agent_for(world)
    with closing(Evaluator(world, backend, 6, SEED, num_envs=3)) as evaluator:
        answers = iter([False] * 5 + [True])
        assert evaluator.run(agent, stop=lambda: next(answers)) is None
        evaluation = evaluator.run(agent)
        again = evaluator.run(agent)
    assert evaluation is not None and again is not None
    assert evaluation.returns == again.returns
    with closing(Evaluator(world, "serial", 6, SEED, num_envs=1)) as evaluator:
        assert evaluator.run(agent).returns == evaluation.returns


def test_agents_of_one_env_play_together() -> None:
    """An env with several agents is one episode, whose return is their mean."""
    world = World("tug", Tug, kernel=True)
    agent = agent_for(world)
    results = played(world, agent, 4, numbers=range(3))
    assert all(abs(episode.total) < 1e-6 and 0 < episode.length <= 18 for episode in results)
    assert played(world, agent, 1, numbers=[2]) == results[2:]


class Endless(Walk):
    """A walk that no policy ends."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.left = 12
        return super().step(action)


def test_an_episode_without_an_end_is_truncated(monkeypatch):
    """An evaluation returns, whatever the policy does."""
    monkeypatch.setattr("rookery.training.evaluation.episodes.LONGEST", 30)
    world = world_of(Endless)
    assert [episode.length for episode in played(world, agent_for(world), 2, numbers=range(3))] == [30, 30, 30]
