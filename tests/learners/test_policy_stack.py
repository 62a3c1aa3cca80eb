"""Policies side by side: each row is acted for as by its own policy alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.learners.algorithms.ppo import ActorCritic
from rookery.learners.kernels.gpu.policy_stack import ModuleStack, PerceptronStack, make_stack
from rookery.learners.registry import PPOOptions

VIEW = spaces.Box(-5, 5, (3,), np.float32)
ACTIONS = [
    spaces.Box(-1, 1, (2,), np.float32),
    spaces.Discrete(5, start=2),
    spaces.MultiDiscrete([3, 2]),
    spaces.MultiBinary(3),
]
FORMS = [{}, {"normalise_observations": True, "activation": "relu"}, {"recurrent": 4}]
ASSETS = {"share_weights": True, "asset_columns": [1, 1]}
ROWS = 37


def make_policy(seed, actions, options):
    torch.manual_seed(seed)
    policy = ActorCritic(VIEW, actions, PPOOptions(hidden=[8, 6], **options))
    for parameter in policy.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    if policy.encoder.norm is not None:
        policy.encoder.update_normalisers([torch.randn(20, 3) * (seed + 1)])
    return policy.requires_grad_(False)


def expected(policies, numbers, view, mask, noise, fixed, memory):
    rows, kept = [], memory.clone()
    for row, number in enumerate(numbers.tolist()):
        some = [None if x is None else x[row : row + 1] for x in (mask, noise)]
        if fixed[row]:
            some[1] = None
        remembered = memory[row : row + 1] if memory.shape[1] else None
        action, after = policies[max(number, 0)].act([view[row : row + 1]], *some, remembered)
        rows.append(action)
        if after is not None and number >= 0:
            kept[row] = after[0]
    return torch.cat(rows), kept


@pytest.mark.parametrize("form", FORMS, ids=["plain", "normalised", "recurrent"])
@pytest.mark.parametrize("actions", ACTIONS, ids=lambda space: type(space).__name__)
def test_each_row_is_acted_for_by_its_policy(actions, form):
    """With noise, without, and with it in some rows; rows without a policy change nothing."""
    policies = [make_policy(seed, actions, form) for seed in range(4)]
    stack = make_stack(policies[0], 4, ROWS)
    assert isinstance(stack, ModuleStack if "recurrent" in form else PerceptronStack)
    for number, policy in enumerate(policies):
        stack.put(number, policy)
    generator = torch.Generator().manual_seed(3)
    memory = torch.zeros(ROWS, policies[0].memory_size)
    for step in range(4):
        numbers = torch.randint(-1, 4 if step else 1, (ROWS,), generator=generator)
        view, noise = torch.randn(ROWS, 3, generator=generator), stack.sample_noise(ROWS, generator)
        fixed = torch.rand(ROWS, generator=generator) < 0.4
        given = None if step == 3 else noise
        mask = None
        if step == 2 and isinstance(actions, spaces.Discrete):
            mask = torch.rand(ROWS, 5, generator=generator) < 0.7
            mask[:, 0] = True
        wanted, memory = expected(policies, numbers, view, mask, given, fixed, memory)
        found = stack.act(numbers, view, mask, given, fixed)
        played = numbers >= 0
        assert found.shape == wanted.shape and torch.allclose(found[played], wanted[played], atol=1e-5)
        begun = torch.rand(ROWS, generator=generator) < 0.3
        stack.begin(begun)
        memory[begun] = 0.0


@pytest.mark.parametrize("form", [*FORMS[1:], ASSETS], ids=["perceptron", "module", "assets"])
def test_a_policy_is_saved_and_put_back(form):
    """In another place of another stack."""
    policies = [make_policy(seed, ACTIONS[0], form) for seed in range(2)]
    stacks = [make_stack(policies[0], 2, 5) for _ in range(2)]
    stacks[0].put(1, policies[1])
    stacks[1].load(0, stacks[0].saved(1))
    view, fixed = torch.randn(5, 3), torch.ones(5, dtype=torch.bool)
    mine = stacks[0].act(torch.full((5,), 1), view, None, None, fixed)
    assert torch.equal(mine, stacks[1].act(torch.full((5,), 0), view, None, None, fixed))
