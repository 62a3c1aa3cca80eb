"""TD3 and REDQ: targets and losses from their definitions, learning, and continuing exactly."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners.offpolicy_tools import Centre, assert_same, play
from rookery import standalone
from rookery.errors import OptionError
from rookery.learners.algorithms.td3 import TD3
from rookery.learners.frozen_policy import PackedPolicy, freeze
from rookery.learners.registry import REDQ, TD3Options, option_classes
from rookery.learners.replay_buffer import ReplayBatch

SEEN, DONE = spaces.Box(-3, 3, (1,), np.float32), spaces.Box(-2, 2, (1,), np.float32)
ALL = slice(0, 4)


def make(num_envs: int = 4, seed: int = 0, done: spaces.Space = DONE, **options: Any) -> TD3:
    small = {"hidden": [32, 32], "batch_size": 32, "buffer_size": 5000, "start_steps": 40} | options
    return TD3(SEEN, done, TD3Options(**small), num_envs, seed)


def batch_of() -> ReplayBatch:
    return ReplayBatch(
        leaves=[torch.zeros(3, 1)],
        actions=torch.zeros(3, 1),
        rewards=torch.tensor([1.0, 2.0, 3.0]),
        discounts=torch.tensor([0.99, 0.0, 0.97]),
        next_leaves=[torch.tensor([[0.5], [1.0], [-1.0]])],
        next_masks=None,
    )


def target_values(learner: TD3) -> torch.Tensor:
    """What each target critic says of the target actor's actions, without noise."""
    following = batch_of().next_leaves[0]
    return learner.targets(following, learner.target_actor(following).tanh())


@pytest.mark.parametrize("mode", ["min", "mean"])
def test_targets_by_hand(mode: str) -> None:
    """reward + discount * the smallest or the mean value, of the target actor's action."""
    learner, batch = make(policy_noise=0.0, target_mode=mode, num_critics=3, min_critics=3), batch_of()
    values = target_values(learner)
    wanted = batch.rewards + batch.discounts * (values.amin(0) if mode == "min" else values.mean(0))
    torch.testing.assert_close(learner.td_target(batch), wanted)


def test_the_target_is_of_a_random_few() -> None:
    """Of five critics, two at a time: every pair's minimum is found, and nothing else."""
    learner, batch = make(policy_noise=0.0, num_critics=5), batch_of()
    values = target_values(learner)[:, 0]
    pairs = {round(float(torch.minimum(values[i], values[k])), 4) for i in range(5) for k in range(i)}
    found = {round(float((learner.td_target(batch)[0] - 1.0) / 0.99), 4) for _ in range(60)}
    assert len(found) > 1 and found <= pairs


def test_target_noise_is_clipped() -> None:
    """Noise of any size moves target actions by `noise_clip` at most."""
    learner = make(policy_noise=1e3, noise_clip=0.0)
    quiet = make(policy_noise=0.0)
    torch.testing.assert_close(learner.td_target(batch_of()), quiet.td_target(batch_of()))


def test_the_actor_and_the_targets_are_delayed() -> None:
    """The actor moves every third update, the targets every second, the critics always."""
    learner = make(policy_delay=3, target_every=2, tau=0.5, start_steps=0)
    play(learner, Centre(4, 20, 0), 1)
    moved = []
    for _ in range(6):
        vectors = learner.critic_adam.flat, learner.actor_adam.flat, learner.target_weights
        before = [vector.detach().clone() for vector in vectors]
        learner.execution.updates_due = 1.0
        learner.update()
        moved.append(tuple(not torch.equal(x, y) for x, y in zip(vectors, before, strict=True)))
    assert moved == [(True, number % 3 == 0, number % 2 == 0) for number in range(1, 7)]


@pytest.mark.parametrize("critics", [2, 5])
def test_the_actors_gradient_leaves_the_critics_alone(critics: int) -> None:
    """The loss is minus the first of two critics' value, or the mean of an ensemble's."""
    learner, features = make(num_critics=critics), torch.randn(8, 1)
    loss = learner.actor_loss(features)
    loss.backward()
    assert not learner.critic_adam.gradient.any() and learner.actor_adam.gradient.any()
    values = learner.critics(features, learner.policy(features))
    assert loss.item() == pytest.approx(-(values[0] if critics == 2 else values).mean().item(), rel=1e-5)


def test_importance_weights_count_in_the_loss() -> None:
    """Half the weighted mean square of each critic, summed."""
    error, weights = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 0.5])
    assert make().critic_loss(error, None).item() == pytest.approx((1 + 4 + 9 + 16) / 4)
    assert make().critic_loss(error, weights).item() == pytest.approx((1 + 2 + 9 + 8) / 4)


def test_redq_is_one_option() -> None:
    """It sets the values of REDQ, and whatever is given stays."""
    assert all(getattr(TD3Options(redq=True), name) == value for name, value in REDQ.items())
    given = TD3Options(redq=True, num_critics=4)
    assert (given.num_critics, given.updates_per_step) == (4, 20.0)
    assert TD3Options.model_validate(given.model_dump()) == given
    assert TD3Options().num_critics == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"redq": True, "updates_per_step": 2.0}, {"prioritised": True, "noise": "pink"}]
)
def test_a_run_continues_exactly(options: dict[str, Any]) -> None:
    """From its state, in another learner."""
    learner, envs = make(**options), Centre(4, 20, 0)
    seen = play(learner, envs, 30)
    other, there = make(seed=9, **options), copy.deepcopy(envs)
    other.load(copy.deepcopy(learner.state()))
    play(learner, envs, 20, seen)
    play(other, there, 20, seen)
    assert_same(learner.state(), other.state())


def test_actions_stay_in_bounds_and_are_explored() -> None:
    """At first spread over the bounds, later near the actor's own."""
    learner = make(exploration_noise=0.05)
    first = np.concatenate([learner.explore(np.zeros((4, 1), np.float32), ALL) for _ in range(100)])
    assert -2 <= first.min() < -1.8 and 1.8 < first.max() <= 2
    learner.execution.steps = 1000
    later = np.concatenate([learner.explore(np.zeros((4, 1), np.float32), ALL) for _ in range(100)])
    assert 0 < later.std() < 0.2


def test_frozen_and_standalone_agents_act_alike() -> None:
    """Compiled, and with NumPy alone."""
    learner = make(num_envs=4, normalise_observations=True)
    play(learner, Centre(4, 20, 0), 30)
    rows = np.linspace(-2, 2, 9, dtype=np.float32)[:, None]
    wanted = learner.agent.act(rows, deterministic=True)
    frozen, alone = freeze(learner.policy), standalone.from_agent(learner.agent)
    assert isinstance(frozen, PackedPolicy)
    np.testing.assert_allclose(frozen(rows)[0], wanted, atol=1e-5)
    np.testing.assert_allclose(alone.act(rows), wanted, atol=1e-5)
    drawn = alone.act(np.repeat(rows, 200, 0), deterministic=False) - np.repeat(wanted, 200, 0)
    assert 0.15 < drawn.std() < 0.25  # 0.1 of a range of 2 to either side


def test_what_it_cannot_do_is_refused() -> None:
    """Discrete actions and masks."""
    with pytest.raises(OptionError, match="TD3 cannot act in Discrete"):
        make(done=spaces.Discrete(3))
    with pytest.raises(OptionError, match="masks need discrete actions"):
        make().explore(np.zeros((4, 1), np.float32), ALL, np.ones((4, 1), np.bool_))
    assert option_classes()["td3"] is TD3Options


@pytest.mark.parametrize(
    "change",
    [
        {"exploration_noise": 0.4},
        {"policy_noise": 0.5},
        {"noise_clip": 0.01},
        {"policy_delay": 3},
        {"target_every": 5},
        {"min_critics": 1},
        {"target_mode": "mean"},
        {"learning_rate": 0.01, "gamma": 0.9, "tau": 0.1},
    ],
)
def test_an_adjusted_option_is_as_if_given(change: dict[str, Any]) -> None:
    """Bit for bit the learner that had it from the start, and not the one that never had it."""
    adjusted, given, other = make(hidden=[8]), make(hidden=[8], **change), make(hidden=[8])
    adjusted.adjust(change)
    for learner in (adjusted, given, other):
        play(learner, Centre(4, 20, 0), 14)
    assert_same(adjusted.state(), given.state())
    assert not torch.equal(adjusted.actor_adam.flat, other.actor_adam.flat)


@pytest.mark.slow
@pytest.mark.parametrize("accelerate", [True, False])
def test_it_learns_to_reach_the_middle(accelerate: bool) -> None:
    """From anywhere, within a few steps; plain and accelerated."""
    learner = make(learning_rate=3e-3, batch_size=64, updates_per_step=0.5, accelerate=accelerate)
    play(learner, Centre(4, 20, 0), 300)
    envs = Centre(64, 20, 1)
    total, seen = np.zeros(64), envs.observe()
    for _ in range(19):
        seen, rewards, *_ = envs.step(learner.agent.act(seen, deterministic=True))
        total += rewards
    assert total.mean() > -1.5
