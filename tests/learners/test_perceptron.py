"""Perceptrons and PPO's loss by hand: the same numbers as torch's own operations and autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.learners.accelerator import Accelerator
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.flat_adam import FlatAdam
from rookery.learners.kernels.cpu.fused_ppo import FusedPPO
from rookery.learners.kernels.cpu.perceptron import KINDS, FusedMLP, PackedMLP, activate
from rookery.learners.networks import MLP
from rookery.learners.registry import PPOOptions

SHAPES = [(3, [16, 12], 2), (20, [8], 1), (4, [], 3), (1, [5, 6, 7], 4)]
ACTIONS = {
    "choice": spaces.Discrete(3, start=5),
    "choices": spaces.MultiDiscrete([2, 3, 4]),
    "continuous": spaces.Box(-1, 1, (2,)),
}


@pytest.mark.parametrize("kind", ["tanh", "relu"])
@pytest.mark.parametrize(("inputs", "hidden", "outputs"), SHAPES)
def test_outputs_and_gradients_are_torchs(inputs: int, hidden: list[int], outputs: int, kind: str) -> None:
    """For any depth, width and number of rows, also when these change."""
    torch.manual_seed(0)
    net = MLP(inputs, hidden, outputs, kind)
    adam = FlatAdam(net.parameters(), 1e-3)
    for p in net.parameters():
        p.data.normal_(0, 0.5)
    hand = FusedMLP(net.layer_params, KINDS[kind])
    for rows in (7, 64, 7):
        features, grad = torch.randn(rows, inputs), torch.randn(rows, outputs)
        wanted = net(features)
        with torch.no_grad():
            torch.testing.assert_close(hand.forward(features), wanted, rtol=1e-5, atol=2e-6)
            hand.backward(grad)
        found = adam.gradient.clone()
        adam.gradient.zero_()
        (wanted * grad).sum().backward()
        torch.testing.assert_close(found, adam.gradient, rtol=1e-4, atol=2e-5)
        outputs_now = PackedMLP(net.layer_params, KINDS[kind])(features.numpy())
        torch.testing.assert_close(torch.from_numpy(outputs_now), wanted.detach(), rtol=1e-5, atol=2e-6)


def test_tanh_is_tanh() -> None:
    """From far below to far above zero, to within a few units of the last place; the ends are exactly flat."""
    x = np.concatenate([np.linspace(-12, 12, 20_001), [-1e30, -1e-30, 0.0, 1e-30, 1e30]]).astype(np.float32)
    found = x[None].copy()
    activate(found, np.zeros(len(x), np.float32), 0)
    np.testing.assert_allclose(found[0], np.tanh(x.astype(np.float64)), rtol=6e-7, atol=4e-7)
    assert np.abs(found).max() <= 1.0 + 4e-7


@pytest.mark.parametrize("actions", sorted(ACTIONS))
@pytest.mark.parametrize(
    "options",
    [{}, {"entropy": 0.1}, {"clip_values": 0.05}, {"normalise_advantages": False, "clip": 0.01, "activation": "relu"}],
)
def test_a_step_by_hand_is_a_step_by_autograd(actions: str, options: dict[str, Any]) -> None:
    """The same gradient and the same metrics, for policies that have moved within and beyond the clip range."""
    seen = spaces.Box(-1, 1, (4,))
    learner = PPO(seen, ACTIONS[actions], PPOOptions(hidden=[16, 16], rollout_length=8, **options), 4, seed=1)
    assert isinstance(learner.accelerator, FusedPPO)
    generator = torch.Generator().manual_seed(2)
    rows = 64
    drawn = learner.head.sample_noise(rows, generator=generator)
    observations = torch.randn(rows, 4, generator=generator)
    with torch.no_grad():
        outputs = learner.policy.actor(observations)
        taken = learner.head.sample(outputs, drawn)
        log_probs = learner.head.log_prob(outputs, taken) + 0.2 * torch.randn(rows, generator=generator)
    part = {
        "leaf0": observations,
        "actions": taken,
        "log_probs": log_probs,
        "advantages": torch.randn(rows, generator=generator),
        "values": torch.randn(rows, generator=generator) * 0.1,
        "returns": torch.randn(rows, generator=generator),
    }
    start = learner.adam.flat.detach().clone()
    accelerator, learner.accelerator = learner.accelerator, Accelerator(learner)
    by_autograd, gradient = learner.gradient_step(part, learner.options.clip), learner.adam.gradient.clone()
    learner.adam.flat.data.copy_(start)
    learner.adam.load(FlatAdam([torch.nn.Parameter(start)], 1e-3).state())
    by_hand = accelerator.gradient_step(part, learner.options.clip)
    torch.testing.assert_close(learner.adam.gradient, gradient, rtol=1e-3, atol=2e-6)
    torch.testing.assert_close(by_hand, by_autograd, rtol=1e-4, atol=1e-5)


def test_masked_choices_pull_nothing() -> None:
    """A forbidden logit has no grad, and the others have those of autograd."""
    learner = PPO(spaces.Box(-1, 1, (2,)), spaces.Discrete(4), PPOOptions(hidden=[8], entropy=0.05), 4, seed=1)
    rows, generator = 32, torch.Generator().manual_seed(0)
    masks = torch.ones(rows, 4, dtype=torch.bool)
    masks[:, 2] = False
    part = {
        "leaf0": torch.randn(rows, 2, generator=generator),
        "actions": torch.randint(0, 2, (rows,), generator=generator),
        "log_probs": torch.full((rows,), -1.0),
        "masks": masks,
        **{name: torch.randn(rows, generator=generator) for name in ("advantages", "values", "returns")},
    }
    start = learner.adam.flat.detach().clone()
    accelerator, learner.accelerator = learner.accelerator, Accelerator(learner)
    learner.gradient_step(part, 0.2)
    gradient = learner.adam.gradient.clone()
    learner.adam.flat.data.copy_(start)
    accelerator.gradient_step(part, 0.2)
    torch.testing.assert_close(learner.adam.gradient, gradient, rtol=1e-3, atol=2e-6)
    assert (learner.policy.actor.layers[-1].weight.grad[2] == 0).all()


def test_quick_exploring_is_exploring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acting without tensors takes the same actions and keeps the same things, for few rows and for many."""
    for envs in (3, 80):
        learners = [PPO(spaces.Box(-1, 1, (4,)), spaces.Discrete(3), PPOOptions(), envs, seed=3) for _ in range(2)]
        learners[1].accelerator = Accelerator(learners[1])
        observations = np.random.default_rng(0).normal(size=(envs, 4)).astype(np.float32)
        first, second = (learner.explore(observations, slice(0, envs)) for learner in learners)
        assert (first == second).all()
        for name in ("actions", "outputs"):
            one, other = (getattr(learner.rollout, name)[0] for learner in learners)
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
        assert torch.equal(learners[0].rollout.observations[0], learners[1].rollout.observations[0])
