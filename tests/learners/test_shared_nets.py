"""Nets that all assets of a market share: what they read, what they return, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.errors import OptionError
from rookery.learners.algorithms.ppo import PPO, ActorCritic
from rookery.learners.execution.choose import plain_note
from rookery.learners.kernels.cpu.fused_ppo import CompiledAdvantages, FusedPPO
from rookery.learners.kernels.gpu.policy_stack import make_stack
from rookery.learners.registry import PPOOptions

LAYOUT, ASSETS = [2, 1, 3], 4
SEEN = spaces.Box(-np.inf, np.inf, (2 + 4 * ASSETS,), np.float32)
BOX = spaces.Box(-1, 1, (2 * ASSETS,), np.float32)  # two numbers for each asset
ORDER = [2, 0, 3, 1]  # of the assets


def options(**more: Any) -> PPOOptions:
    return PPOOptions(**{"hidden": [8], "share_weights": True, "asset_columns": LAYOUT, **more})


def policy() -> ActorCritic:
    torch.manual_seed(1)
    made = ActorCritic(SEEN, BOX, options())
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made.requires_grad_(False)


def reordered(observations: torch.Tensor) -> torch.Tensor:
    """The same account with its assets in another order."""
    account, held, features = observations.split([2, ASSETS, 3 * ASSETS], 1)
    features = features.reshape(-1, ASSETS, 3)[:, ORDER].flatten(1)
    return torch.cat([account, held[:, ORDER], features], 1)


def test_assets_in_another_order_are_treated_alike() -> None:
    net, observations = policy(), torch.randn(5, SEEN.shape[0])
    outputs, values = net.actor(observations), net.critic(observations)
    again = net.actor(reordered(observations))
    torch.testing.assert_close(again.reshape(5, 2, ASSETS), outputs.reshape(5, 2, ASSETS)[:, :, ORDER])
    torch.testing.assert_close(net.critic(reordered(observations)), values)
    assert outputs.shape == (5, 8) and values.shape == (5, 1)


def test_an_asset_sees_itself_and_the_account_alone() -> None:
    net, observation, one = policy(), torch.randn(1, SEEN.shape[0]), torch.eye(SEEN.shape[0])
    before, after = net.actor(observation), net.actor(observation + one)  # each row has another column changed
    changed = ((after - before).abs() > 1e-5).reshape(-1, 2, ASSETS).any(1)
    assert changed[:2].all(), "the account"
    assert torch.equal(changed[2:6], torch.eye(ASSETS, dtype=torch.bool)), "what is held"
    assert torch.equal(changed[6:], torch.eye(ASSETS, dtype=torch.bool).repeat_interleave(3, 0)), "features"


def test_there_are_no_more_weights_for_more_assets() -> None:
    more = ActorCritic(spaces.Box(-1, 1, (2 + 4 * 30,)), spaces.Box(-1, 1, (60,)), options())
    few = policy()
    for name in ("actor", "critic"):
        shapes = [[p.shape for p in getattr(each, name).parameters()] for each in (more, few)]
        assert shapes[0] == shapes[1]


def test_stacked_policies_act_as_each_alone() -> None:
    net, view = policy(), torch.randn(5, SEEN.shape[0])
    stack = make_stack(net, 2, 5)
    stack.put(1, net)
    found = stack.act(torch.full((5,), 1), view, None, None, torch.ones(5, dtype=torch.bool))
    torch.testing.assert_close(found, net.act([view], None, None, None)[0])


def test_compiled_kernels_take_up_to_64_assets_and_the_log_names_what_they_leave() -> None:
    for assets, compiled in ((64, True), (65, False)):
        seen, done = spaces.Box(-1, 1, (2 + 4 * assets,)), spaces.Box(-1, 1, (assets,))
        learner = PPO(seen, done, options(), 2, 0)
        assert type(learner.accelerator) is (FusedPPO if compiled else CompiledAdvantages)
        assert ("`share_weights`" in plain_note(learner)) is not compiled


@pytest.mark.parametrize(
    ("more", "seen", "done", "message"),
    [
        ({"asset_columns": None}, SEEN, BOX, "needs `asset_columns`"),
        ({"asset_columns": [2, 5]}, SEEN, BOX, r"\[2, 5\] does not fit observations of 18 numbers"),
        ({"asset_columns": [18, 1]}, SEEN, BOX, "does not fit"),
        ({"asset_columns": [0, 0]}, SEEN, BOX, "does not fit"),
        ({"recurrent": 4}, SEEN, BOX, "no `recurrent`"),
        ({"network": "net.py:Mine"}, SEEN, BOX, "or `network`"),
        ({}, spaces.Dict(a=SEEN, b=SEEN), BOX, "one vector"),
        ({}, SEEN, spaces.Box(-1, 1, (7,)), "for each of 4 assets"),
        ({}, SEEN, spaces.Discrete(8), "a Box of actions"),
    ],
)
def test_what_does_not_fit_is_refused(more: dict, seen: spaces.Space, done: spaces.Space, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ActorCritic(seen, done, options(**more))
