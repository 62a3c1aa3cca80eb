"""Episodes on a device are the episodes of the CPU: the same seeds, actions and results. The device is the CPU here, on
which the GPU's code runs as plain Python."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from kernel.board_games import Race, TicTacToe
from kernel.dict_worlds import Sailor
from kernel.samples import Tug, Walker
from rookery.training.evaluation import device_episodes
from rookery.training.evaluation.evaluator import Evaluation, Evaluator
from rookery.training.resolve.world_choice import World, find
from training.evaluation.test_episodes import agent_for

# Masks; two agents; a Dict; turns and masks; a winner. With deterministic actions, or with sampled ones.
WORLDS = ((Walker, False), (Tug, True), (Tug, False), (Sailor, False), (TicTacToe, True), (Race, False))


def world_of(source: type) -> World:
    return World(source.__name__, source, kernel=True)


def both(world: World, episodes: int, **options: Any) -> list[Evaluation]:
    """The evaluation on the CPU, and on the device."""
    agent, found = agent_for(world, recurrent=options.pop("recurrent", None)), []
    for device in (None, "cpu"):
        with closing(Evaluator(world, "kernel", episodes, 7, device=device, **options)) as evaluator:
            found.append(evaluator.run(agent))
    return found


def assert_same(cpu: Evaluation, device: Evaluation) -> None:
    assert device.lengths == cpu.lengths
    assert device.returns == pytest.approx(cpu.returns, rel=1e-5, abs=1e-5)  # the GPU's rewards are float32
    assert device.outcomes == pytest.approx(cpu.outcomes, rel=1e-5, abs=1e-5)


@pytest.mark.usefixtures("plain_python")
@pytest.mark.push("Sailor-False", "Walker-False", "Tug-True", "Tug-False")
@pytest.mark.parametrize(("source", "deterministic"), WORLDS)
def test_the_same_episodes_as_on_the_cpu(source, deterministic):
    assert_same(*both(world_of(source), 5, deterministic=deterministic))


def test_episodes_longer_than_a_graph_and_further_rounds():
    cpu, device = both(find("rookery/CartPole-v1"), 3, deterministic=False, max_episodes=7)
    assert_same(cpu, device)
    assert len(device.lengths) == 7


def test_a_recurrent_agent_begins_every_episode_without_memory():
    assert_same(*both(world_of(Walker), 6, recurrent=4, max_episodes=12))


def test_more_episodes_than_envs_are_played_in_batches(monkeypatch):
    monkeypatch.setattr(device_episodes, "MOST_ENVS", 2)
    assert_same(*both(world_of(Walker), 5))


def test_it_tells_its_progress_and_stops_when_asked():
    world, done = world_of(Walker), []
    with closing(Evaluator(world, "kernel", 4, 1, device="cpu")) as evaluator:
        assert evaluator.run(agent_for(world), stop=lambda: True) is None
        assert evaluator.run(agent_for(world), progress=done.append) is not None
    assert done[0] == 0 and done[-1] == 4


def test_an_agent_is_evaluated_as_it_is_now():
    """Its weights change in place, as those of an agent that learns do."""
    world = world_of(Walker)
    agent, other = agent_for(world), agent_for(world)
    for parameter in other.policy.parameters():
        parameter.data.neg_()
    with closing(Evaluator(world, "kernel", 5, 1, device="cpu")) as evaluator:
        before = evaluator.run(agent)
        for mine, theirs in zip(agent.policy.parameters(), other.policy.parameters(), strict=True):
            mine.data.copy_(theirs.data)
        after, expected = evaluator.run(agent), evaluator.run(other)
    assert after.returns == expected.returns
    assert before.returns != after.returns
