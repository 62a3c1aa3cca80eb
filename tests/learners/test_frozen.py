"""Policies as they are now: the same answers as the agent's, row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.learners.frozen_policy import PackedPolicy, TiledPolicy, freeze
from rookery.learners.registry import DQNOptions, PPOOptions, SACOptions, make_policy

SEEN = spaces.Box(-np.inf, np.inf, (6,), np.float32)
BOX = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 3], np.float32))
FEW = spaces.Discrete(3, start=2)
SMALL = {"hidden": [16, 12]}
COMPILED = {
    "ppo, numbers": ("ppo", BOX, PPOOptions(**SMALL)),
    "ppo, numbers, normalised": ("ppo", BOX, PPOOptions(**SMALL, normalise_observations=True)),
    "ppo, assets": ("ppo", BOX, PPOOptions(**SMALL, share_weights=True, asset_columns=[2, 1, 1])),
    "ppo, a choice": ("ppo", FEW, PPOOptions(**SMALL, activation="relu")),
    "sac": ("sac", BOX, SACOptions(**SMALL)),
    "dqn": ("dqn", FEW, DQNOptions(**SMALL)),
    "dqn, plain": ("dqn", FEW, DQNOptions(**SMALL, dueling=False)),
}
COPIED = {
    "recurrent": ("ppo", BOX, PPOOptions(**SMALL, recurrent=8)),
    "other activation": ("ppo", BOX, PPOOptions(**SMALL, activation="elu")),
    "several choices": ("ppo", spaces.MultiDiscrete([2, 3]), PPOOptions(**SMALL)),
}


def policy_of(learner, actions, options):
    torch.manual_seed(3)
    policy = make_policy(learner, SEEN, actions, options)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    if policy.encoder.norm is not None:
        policy.encoder.norm.update(1.0 + 2.0 * torch.randn(50, 6))
    return policy


def batch_for(policy, rows=9):
    observations = np.random.default_rng(1).normal(size=(rows, 6)).astype(np.float32)
    noise = policy.sample_noise(rows, torch.Generator().manual_seed(1))
    memory = torch.zeros(rows, policy.memory_size) if policy.memory_size else None
    return observations, noise, memory


@pytest.mark.parametrize("case", [*COMPILED, *COPIED])
@pytest.mark.parametrize("noisy", [False, True])
def test_it_answers_as_the_policy_does(case, noisy):
    policy = policy_of(*{**COMPILED, **COPIED}[case])
    observations, noise, memory = batch_for(policy)
    noise = noise if noisy else None
    with torch.no_grad():
        wanted, _ = policy.act([torch.from_numpy(observations)], None, noise, memory)
    given = (None if x is None else x.numpy() for x in (noise, memory))
    answered, remembered = freeze(policy)(observations, *given)
    np.testing.assert_allclose(answered, wanted.numpy(), atol=2e-6)
    assert (remembered is None) == (memory is None)


@pytest.mark.parametrize("case", COMPILED)
def test_rows_do_not_depend_on_each_other(case):
    """Bit by bit, so that games come out the same however many are played at once."""
    policy = policy_of(*COMPILED[case])
    frozen = freeze(policy)
    assert isinstance(frozen, PackedPolicy)
    observations, noise, _ = batch_for(policy)
    for drawn in (None, noise.numpy()):
        together, _ = frozen(observations, drawn)
        for k in range(len(observations)):
            alone, _ = frozen(observations[k : k + 1], None if drawn is None else drawn[k : k + 1])
            assert alone.tobytes() == together[k : k + 1].tobytes()


@pytest.mark.parametrize("case", [*COMPILED, *COPIED])
def test_later_learning_does_not_change_it(case):
    policy = policy_of(*{**COMPILED, **COPIED}[case])
    observations, _, memory = batch_for(policy)
    memory = None if memory is None else memory.numpy()
    frozen = freeze(policy)
    before, _ = frozen(observations, None, memory)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.normal_()
    assert np.array_equal(frozen(observations, None, memory)[0], before)
    assert not np.array_equal(freeze(policy)(observations, None, memory)[0], before)


def test_what_is_no_perceptron_is_copied():
    assert all(isinstance(freeze(policy_of(*parts)), TiledPolicy) for parts in COPIED.values())
