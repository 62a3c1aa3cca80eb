"""DQN's net: its gradient, written out, against autograd's."""

from __future__ import annotations

import pytest
import torch

from rookery.learners.flat_adam import FlatAdam
from rookery.learners.kernels.cpu.fused_dqn import FusedQNet
from rookery.learners.networks import ACTIVATIONS, QNet


def test_dueling_adds_the_value_to_what_differs_from_the_mean() -> None:
    """By hand; also with a last layer of odd width."""
    net = QNet(3, [8, 7], 5, "relu", dueling=True)
    features = torch.randn(4, 3)
    hidden = features
    for layer in net.hidden:
        hidden = layer(hidden).relu()
    situation, choice = hidden.chunk(2, -1)
    advantages = net.advantage(choice)
    assert net.value is not None
    wanted = net.value(situation) + advantages - advantages.mean(-1, keepdim=True)
    assert torch.allclose(net(features), wanted, atol=1e-6)


@pytest.mark.parametrize("dueling", [True, False])
@pytest.mark.parametrize("hidden", [[16, 12], [9]])
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_gradients_are_autograds(activation: str, hidden: list[int], dueling: bool) -> None:
    """Of all parameters and of the features, for the first rows of a pass."""
    torch.manual_seed(0)
    net = QNet(3, hidden, 4, activation, dueling)
    adam, by_hand = FlatAdam(net.parameters(), 1e-3), FusedQNet(net)
    features, grad = torch.randn(10, 3, requires_grad=True), torch.randn(6, 4)
    values = net(features)
    with torch.no_grad():
        traced, passes = by_hand.forward(features, 6)
        pulled = by_hand.backward(passes, grad, to_features=True)
    assert torch.equal(values, traced)
    assert pulled is not None and adam.flat.grad is not None
    found = adam.flat.grad.clone()
    adam.flat.grad.zero_()
    (values[:6] * grad).sum().backward()
    assert features.grad is not None
    assert torch.allclose(found, adam.flat.grad, atol=1e-6)
    assert torch.allclose(pulled, features.grad[:6], atol=1e-6)
