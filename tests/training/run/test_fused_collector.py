"""Rollouts in one compiled loop: the same as those made step by step, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.registry import PPOOptions
from rookery.training.run import collector, fused_collector
from rookery.training.run.collector import Collector
from rookery.training.run.timing import Stopwatch
from training.runs import differences, last_state, train


def gatherer(
    world: str = "rookery/CartPole-v1", envs: int = 6, workers: int | None = None, **options: Any
) -> Collector:
    engine = rookery.make_vec(world, envs, "kernel", workers=workers, autoreset_mode="SameStep", copy=False)
    spaces = engine.single_observation_space, engine.single_action_space
    learner = PPO(*spaces, PPOOptions(hidden=[16], rollout_length=40, **options), envs, seed=1)
    made = Collector(engine, learner, Stopwatch(), lambda steps: steps / 10_000)
    made.begin(*engine.reset(seed=3))
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "world"),
    [("ppo", "CartPole-v1"), ("ppo", "MountainCar-v0"), ("ppo", "Acrobot-v1"), ("pqn", "CartPole-v1")],
)
def test_rolled_rollouts_are_those_made_step_by_step(
    learner: str, world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights, random numbers and episodes, over terminated and truncated ones."""
    options: dict[str, Any] = {"world": world, "steps": 6_000, learner: {"rollout_length": 50}}
    rolled = train(learner, tmp_path / "rolled", **options)
    monkeypatch.setattr(collector, "roller_for", lambda *_: None)
    stepped = train(learner, tmp_path / "stepped", **options)
    assert rolled.episodes == stepped.episodes > 0
    assert not differences(last_state(rolled.path), last_state(stepped.path))


def test_rollouts_are_the_same_on_any_number_of_threads() -> None:
    """Of many envs, with truncated episodes among them; a team that is larger than the engine's rolls alone."""
    states = []
    for threads in (1, 3, 5):
        made = gatherer("rookery/MountainCar-v0", envs=70, workers=3)
        made.learner.use_threads(threads)
        made.envs.set_parameters(time_limit=25 + np.arange(70) % 7)
        for _ in range(6):
            made.collect(made.learner.steps_until_update, lambda: False)
            made.update()
        episodes = made.envs.finished_episodes()
        states.append((made.learner.state(), episodes["env"].tolist(), episodes["return"].tolist()))
        made.envs.close()
    for learner, *episodes in states[1:]:
        assert not differences(learner, states[0][0])
        assert episodes == list(states[0][1:]) and len(episodes[0]) > 400


def test_most_steps_are_rolled(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the last one of a rollout, unless an episode is truncated."""
    made = gatherer()
    alone: list[int] = []
    receive = made._receive
    monkeypatch.setattr(made, "_receive", lambda part: (alone.append(1), receive(part)))
    for _ in range(3):
        made.collect(made.learner.steps_until_update, lambda: False)
        assert made.learner.ready()
        made.update()
    assert len(alone) == 3 and made.steps == 3 * 40 * 6
    made.envs.close()


def test_fewer_rounds_than_a_rollout() -> None:
    """Stop where they end, and the rollout is filled up later."""
    made = gatherer()
    for rounds in (1, 7, 0, 31):
        made.collect(rounds, lambda: False)
    assert made.steps == 39 * 6 and made.learner.steps_until_update == 1 and not made.learner.ready()
    made.collect(1, lambda: False)
    assert made.learner.ready()
    made.envs.close()


def test_what_is_not_plain_is_not_rolled() -> None:
    """Continuous actions, recurrent policies, normalised observations and worlds with infos."""
    refused = [
        gatherer("rookery/Pendulum-v1"),
        gatherer(recurrent=4),
        gatherer(normalise_observations=True),
        gatherer("rookery/HockeyOne-v0"),
    ]
    assert all(made._fused is None for made in refused)
    assert isinstance(gatherer()._fused, fused_collector.FusedCollector)
    for made in refused:
        made.envs.close()
