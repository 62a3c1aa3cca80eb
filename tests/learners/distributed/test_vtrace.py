"""V-trace, against its definition in plain Python; and PPO with it, against ordinary PPO."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from gymnasium import spaces
from torch import Tensor
from torch.distributions import Categorical

from learners.scripted import Script, play
from rookery.learners.algorithms.ppo import PPO, gae
from rookery.learners.algorithms.vtrace import vtrace
from rookery.learners.execution.rollout_host import RolloutHost
from rookery.learners.registry import PPOOptions

STEPS, ENVS, GAMMA = 12, 5, 0.9
VECTOR = spaces.Box(-2, 2, (3,))


def outcome() -> tuple[Tensor, ...]:
    """Rewards, values, next values, which steps terminated and ended an episode; some were truncated."""
    generator = torch.Generator().manual_seed(3)
    rewards, values, next_values = (torch.randn(STEPS, ENVS, generator=generator) for _ in range(3))
    ended = torch.rand(STEPS, ENVS, generator=generator) < 0.25
    terminated = ended & (torch.rand(STEPS, ENVS, generator=generator) < 0.5)
    next_values[:-1] = torch.where(ended[:-1], next_values[:-1], values[1:])
    assert terminated.any() and (ended & ~terminated).any()
    return rewards, values, next_values, terminated, ended


def ratios() -> Tensor:
    found = (0.7 * torch.randn(STEPS, ENVS, generator=torch.Generator().manual_seed(4))).exp()
    assert (found > 1.5).any() and (found < 0.5).any()
    return found


def reference(env: int, first: int, trace_lambda: float, rho_clip: float, c_clip: float) -> float:
    """The target of one step: V + the sum of gamma^(t - s) c_s ... c_(t-1) rho_t (r_t + gamma V' - V) until the episode
    or the rollout ends."""
    rewards, values, next_values, terminated, ended = (column[:, env].tolist() for column in outcome())
    chosen = ratios()[:, env].tolist()
    target, weight = values[first], 1.0
    for t in range(first, STEPS):
        after = 0.0 if terminated[t] else GAMMA * next_values[t]
        target += weight * min(rho_clip, chosen[t]) * (rewards[t] + after - values[t])
        if ended[t]:
            break
        weight *= GAMMA * trace_lambda * min(c_clip, chosen[t])
    return target


@pytest.mark.parametrize(("trace_lambda", "rho_clip", "c_clip"), [(1.0, 1.0, 1.0), (0.8, 1.0, 1.0), (1.0, 1.4, 0.9)])
def test_it_is_the_papers(trace_lambda: float, rho_clip: float, c_clip: float) -> None:
    """Targets are the sums of their definition; an advantage is rho (r + gamma target' - V), for lambda 1."""
    rewards, values, next_values, terminated, ended = outcome()
    numbers = GAMMA, trace_lambda, rho_clip, c_clip
    advantages, returns = vtrace(rewards, values, next_values, terminated, ended, ratios(), *numbers)
    for t in range(STEPS):
        for env in range(ENVS):
            assert returns[t, env] == pytest.approx(reference(env, t, *numbers[1:]), abs=1e-5)
            last = t == STEPS - 1 or bool(ended[t, env])
            later = next_values[t, env].item() if last else reference(env, t + 1, *numbers[1:])
            if trace_lambda == 1.0:
                gained = rewards[t, env] + GAMMA * later * (not terminated[t, env]) - values[t, env]
                expected = min(rho_clip, ratios()[t, env].item()) * gained.item()
                assert advantages[t, env] == pytest.approx(expected, abs=1e-5)


def test_with_present_weights_targets_are_n_step_returns() -> None:
    """Ratios of 1 and lambda 1: discounted rewards until the end, and the critic's value after it."""
    rewards, values, next_values, terminated, ended = outcome()
    _, returns = vtrace(rewards, values, next_values, terminated, ended, torch.ones(STEPS, ENVS), GAMMA)
    for env in range(ENVS):
        expected = math.nan
        for t in range(STEPS - 1, -1, -1):
            after = next_values[t, env].item() * (not terminated[t, env])
            expected = rewards[t, env].item() + GAMMA * (after if t == STEPS - 1 or ended[t, env] else expected)
            assert returns[t, env] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.7, 1.0])
def test_with_present_weights_it_is_gae(gae_lambda: float) -> None:
    """For every lambda."""
    advantages, returns = vtrace(*outcome(), torch.ones(STEPS, ENVS), GAMMA, gae_lambda)  # type: ignore[misc]
    expected = gae(*outcome(), GAMMA, gae_lambda)  # type: ignore[call-arg]
    torch.testing.assert_close(advantages, expected)
    torch.testing.assert_close(returns, expected + outcome()[1])


def filled(corrected: bool, action_space: spaces.Space, masked: bool = False, **options: Any) -> Any:
    """A learner with a full rollout of its present weights."""
    settings = {"rollout_length": 6, "hidden": [8], "epochs": 2, "minibatches": 2, **options}
    learner = PPO(VECTOR, action_space, PPOOptions(**settings), 4, execution=partial(RolloutHost, corrected=corrected))
    play(learner, Script(VECTOR, 4, choices=(3,) if masked else ()), 6)
    learner.rollout.log_probs = learner.acted_log_probs()
    return learner


CHOICE, BOX = spaces.Discrete(3), spaces.Box(-1, 1, (2,))


@pytest.mark.parametrize(
    ("action_space", "masked"), [(CHOICE, False), (CHOICE, True), (BOX, False)], ids=["choice", "masked choice", "box"]
)
@pytest.mark.parametrize("accelerate", [True, False])
def test_with_present_weights_ppo_learns_the_same(action_space: spaces.Space, masked: bool, accelerate: bool) -> None:
    """To float tolerance: an update makes the weights of an ordinary one."""
    one, other = (filled(kind, action_space, masked, accelerate=accelerate) for kind in (False, True))
    one.update()
    other.update()
    torch.testing.assert_close(one.adam.flat, other.adam.flat, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_older_weights_are_corrected() -> None:
    """Ratios are those of the present policy over the one that acted, and learning is clipped around the former."""
    learner = filled(True, spaces.Discrete(3))
    acted = learner.rollout.log_probs.clone()
    learner.adam.flat.data += 0.3 * torch.randn(learner.adam.flat.shape, generator=torch.Generator().manual_seed(2))
    learner.accelerator.invalidate()
    samples = learner.evaluate_rollout()
    features = learner.policy.encoder(learner.rollout.flat_leaves())
    now = Categorical(logits=learner.policy.actor(features)).log_prob(learner.rollout.actions.flatten()).reshape(6, 4)
    torch.testing.assert_close(samples["log_probs"], now)
    assert ((now - acted).exp() - 1).abs().max() > 0.05
    rollout = learner.rollout
    values = samples["values"]
    last = learner.policy.critic(learner.policy.encoder(rollout.last)).reshape(1, -1)
    next_values = torch.cat([values[1:], last])
    for step, envs, leaves in rollout.finals:
        next_values[step, envs] = learner.policy.critic(learner.policy.encoder(leaves)).reshape(-1)
    expected = vtrace(
        rollout.rewards, values, next_values, rollout.terminated, rollout.ended, (now - acted).exp(),
        learner.options.gamma, learner.options.gae_lambda,
    )  # fmt: skip
    torch.testing.assert_close(samples["advantages"], expected[0])
    torch.testing.assert_close(samples["returns"], expected[1])
