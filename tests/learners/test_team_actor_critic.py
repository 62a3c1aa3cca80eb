"""SAC's and TD3's compiled updates: the same numbers on any number of threads, and going on exactly."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners import offpolicy_tools as replayed
from rookery.learners.algorithms.sac import SAC
from rookery.learners.algorithms.td3 import TD3
from rookery.learners.cpu_threads import threads_for
from rookery.learners.kernels.cpu.team_sac import TeamSAC, squashed_sample
from rookery.learners.kernels.cpu.team_td3 import TeamTD3
from rookery.learners.registry import SACOptions, TD3Options

MADE = {"sac": (SAC, SACOptions, TeamSAC), "td3": (TD3, TD3Options, TeamTD3)}
SEEN, ACTIONS = spaces.Box(-1, 1, (1,)), spaces.Box(-2, 2, (1,))


def learner_of(name: str, **options: Any) -> Any:
    """Two blocks of rows and a part of one; gradients in several parts."""
    made, kind, accelerator = MADE[name]
    settings = {"hidden": [70, 35], "batch_size": 75, "start_steps": 40, "updates_per_step": 0.25, **options}
    learner = made(SEEN, ACTIONS, kind(**settings), 4, seed=5)  # type: ignore[operator]
    learner.accelerator = accelerator(learner)  # on any machine, also where it is not chosen
    return learner


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "options"), [("sac", {}), ("sac", {"max_grad_norm": 0.5}), ("td3", {"prioritised": True})]
)
def test_updates_are_the_same_on_any_number_of_threads(name: str, options: dict[str, Any]) -> None:
    """To the bit: weights, moments, priorities, random numbers."""
    states = []
    for threads in (1, 2, 5):
        learner = learner_of(name, **options)
        learner.use_threads(threads)
        replayed.play(learner, replayed.Centre(4, 20, 0), 40)
        states.append(learner.state())
        assert learner.updates >= 20
    for other in states[1:]:
        replayed.assert_same(states[0], other)


@pytest.mark.parametrize("name", sorted(MADE))
def test_going_on_is_exact_after_other_weights(name: str) -> None:
    """A learner that has learned something else goes on from a state as the one that it is from."""
    learner, other = learner_of(name), learner_of(name)
    envs = replayed.Centre(4, 20, 0)
    observations = replayed.play(learner, envs, 30)
    replayed.play(other, replayed.Centre(4, 20, 7), 33)
    other.load(learner.state())
    for one in (learner, other):
        one.use_threads(2)
        one.execution.updates_due += 5.0
        one.update()
    replayed.assert_same(learner.state(), other.state())
    actions = [one.explore(observations, slice(0, 4)) for one in (learner, other)]
    assert np.array_equal(*actions)


@pytest.mark.parametrize("name", sorted(MADE))
def test_another_batch_size_and_other_threads_in_a_run(name: str) -> None:
    """Both may change between updates; threads of its own are started, and torch is left with one."""
    learner, before = learner_of(name), threading.active_count()
    envs = replayed.Centre(4, 20, 0)
    observations = replayed.play(learner, envs, 14)
    for threads, batch in ((3, 20), (1, 75), (2, 128)):
        learner.adjust({"threads": threads, "batch_size": batch})
        observations = replayed.play(learner, envs, 2, observations)
        assert threading.active_count() == before + threads - 1
        assert torch.get_num_threads() == 1
    assert all(np.isfinite(value) for value in learner.update().values())


@pytest.mark.parametrize("name", sorted(MADE))
def test_choosing_threads_changes_nothing(name: str) -> None:
    """The number of threads is measured with the compiled work, which leaves weights and random numbers alone."""
    learner, other = learner_of(name), learner_of(name)
    assert threads_for(learner, name, 2) in (1, 2)
    for one in (learner, other):
        replayed.play(one, replayed.Centre(4, 20, 0), 20)
    replayed.assert_same(learner.state(), other.state())


def test_samples_are_the_policys() -> None:
    """Beyond the limits of the standard deviation too."""
    learner, features = learner_of("sac"), torch.linspace(-1, 1, 9).reshape(9, 1)
    net = learner.policy.net
    net.layers[-1].weight.data.mul_(3000.0)
    noise = torch.linspace(-2, 2, 9).reshape(9, 1)
    with torch.no_grad():
        log_std = net(features)[:, 1]
        assert log_std.min() < -10 or log_std.max() > 2
        actions, log_probs, _ = squashed_sample(net(features), noise)
        wanted = learner.sample(features, noise)
    torch.testing.assert_close((actions, log_probs), wanted)
