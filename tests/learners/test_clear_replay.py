"""Emptying the replay buffer between two phases of a run."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from learners.offpolicy_tools import Batch, Centre, Corridor, assert_same, play
from rookery.learners.algorithms.dqn import DQN
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.algorithms.sac import SAC
from rookery.learners.registry import DQNOptions, PPOOptions, SACOptions

SEEN = spaces.Box(-3, 3, (1,), np.float32)
SMALL = {"hidden": [16], "batch_size": 16, "buffer_size": 500, "start_steps": 40, "n_step": 3}
ALL = slice(0, 4)


def make(kind: str, **options: Any) -> Any:
    if kind == "dqn":
        return DQN(SEEN, spaces.Discrete(2), DQNOptions(**{**SMALL, **options}), 4)
    return SAC(SEEN, spaces.Box(-2, 2, (1,), np.float32), SACOptions(**{**SMALL, **options}), 4)


def world(kind: str, seed: int) -> Batch:
    return (Corridor if kind == "dqn" else Centre)(4, 7, seed)


@pytest.mark.parametrize("kind", ["sac", "dqn"])
def test_learning_waits_for_one_batch(kind: str) -> None:
    """Nothing old is left, no step is random because of it, and 16 transitions later learning goes on."""
    learner = make(kind)
    play(learner, world(kind, 0), 30)
    learner.execution.updates_due = 1.5
    updates, steps = learner.updates, learner.steps
    learner.clear_replay()
    assert (learner.replay.size, learner.updates_due, learner.ready()) == (0, 0.0, False)
    assert learner.learn_from == 40 < steps
    envs = world(kind, 1)
    seen = envs.observe()
    while learner.replay.size < 16:
        assert learner.updates == updates
        seen = play(learner, envs, 1, seen)
    play(learner, envs, 8, seen)
    assert learner.updates > updates


def test_priorities_begin_anew() -> None:
    """As in a new buffer; what was there is never drawn."""
    learner = make("dqn", epsilon_decay=0.9)
    play(learner, world("dqn", 0), 30)
    share = learner.epsilon(ALL)
    learner.clear_replay()
    assert (learner.tree.total, learner.tree.largest) == (0.0, 0.0)
    assert learner.epsilon(ALL) == share < 1.0  # exploration goes on as it was
    play(learner, world("dqn", 1), 4)
    assert learner.tree.total == learner.replay.size > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sac", "dqn"])
@pytest.mark.parametrize("rounds", [0, 2, 12])
def test_going_on_after_it_is_exact(kind: str, rounds: int) -> None:
    """Saved at any time after it, before learning has begun again or later."""
    learner, envs = make(kind), world(kind, 0)
    play(learner, envs, 30)
    learner.clear_replay()
    envs = world(kind, 1)
    seen = play(learner, envs, rounds)
    other = make(kind)
    other.load(copy.deepcopy(learner.state()))
    play(other, copy.deepcopy(envs), 20, seen)
    play(learner, envs, 20, seen)
    assert learner.updates == other.updates
    assert_same(learner.state(), other.state())


def test_a_small_buffer_can_be_full() -> None:
    """A batch larger than the buffer does not make learning wait for ever."""
    learner = make("sac", buffer_size=12, n_step=1)
    play(learner, world("sac", 0), 20)
    learner.clear_replay()
    before = learner.updates
    play(learner, world("sac", 1), 10)
    assert learner.updates > before


def test_ppo_has_none() -> None:
    """Whoever changes phases need not ask."""
    learner = PPO(SEEN, spaces.Discrete(2), PPOOptions(), 4)
    before = learner.state()["policy"]
    learner.clear_replay()
    after = learner.state()["policy"]
    assert all(np.array_equal(before[name], after[name]) for name in before)
