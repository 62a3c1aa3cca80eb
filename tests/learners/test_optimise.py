"""The flat optimiser: the same steps as torch's own, and exact continuation."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from rookery.learners.flat_adam import FlatAdam
from rookery.learners.learner import load_module, module_state
from rookery.learners.networks import MLP


def net() -> MLP:
    torch.manual_seed(0)
    return MLP(3, [8, 8], 2, "tanh")


def batches(count: int) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [tuple(torch.randn(16, width, generator=generator) for width in (3, 2)) for _ in range(count)]  # type: ignore[misc]


def loss_of(module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return (module(batch[0]) - batch[1]).square().mean()


@pytest.mark.few(1)
@pytest.mark.parametrize("max_norm", [None, 0.1, 100.0])
def test_steps_are_those_of_torchs_adam(max_norm: float | None) -> None:
    """Weights and gradient lengths follow torch.optim.Adam with clip_grad_norm_ step for step."""
    ours = net()
    theirs = copy.deepcopy(ours)
    flat = FlatAdam(ours.parameters(), 1e-2, eps=1e-5)
    adam = torch.optim.Adam(theirs.parameters(), lr=1e-2, eps=1e-5)
    for batch in batches(25):
        length = flat.minimize(loss_of(ours, batch), max_norm)
        adam.zero_grad()
        loss_of(theirs, batch).backward()
        expected = nn.utils.clip_grad_norm_(theirs.parameters(), max_norm or float("inf"))
        adam.step()
        torch.testing.assert_close(length, expected, rtol=1e-5, atol=1e-7)
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_the_net_reads_the_flat_vector() -> None:
    """Parameters are views of one vector: to change it is to change the net, and the other way round."""
    module = net()
    flat = FlatAdam(module.parameters(), 1e-2)
    flat.flat.data.zero_()
    assert (module(torch.ones(1, 3)) == 0).all()
    module.layers[-1].bias.data.fill_(3.0)
    assert flat.flat[-2:].tolist() == [3.0, 3.0]


def test_learning_rate_can_be_changed() -> None:
    """A rate of 0 moves nothing; the next rate set does."""
    module = net()
    flat = FlatAdam(module.parameters(), 1e-2)
    (batch,) = batches(1)
    before = flat.flat.detach().clone()
    flat.learning_rate = 0.0
    flat.minimize(loss_of(module, batch))
    assert torch.equal(flat.flat, before)
    flat.learning_rate = 1e-3
    assert flat.learning_rate == 1e-3
    flat.minimize(loss_of(module, batch))
    assert not torch.equal(flat.flat, before)


def test_going_on_from_a_state_is_exact() -> None:
    """Loaded into another net and optimiser, weights and moments go on bit for bit."""
    module, data = net(), batches(12)
    flat = FlatAdam(module.parameters(), 1e-2)
    for batch in data[:6]:
        flat.minimize(loss_of(module, batch), 0.5)
    saved = module_state(module), flat.state()
    other = MLP(3, [8, 8], 2, "tanh")
    continued = FlatAdam(other.parameters(), 1e-2)
    load_module(other, saved[0])
    continued.load(saved[1])
    for batch in data[6:]:
        flat.minimize(loss_of(module, batch), 0.5)
        continued.minimize(loss_of(other, batch), 0.5)
    assert torch.equal(flat.flat, continued.flat)


def test_a_state_from_before_the_first_step_takes_old_moments_away() -> None:
    """An optimiser that was used and then given a fresh state starts over."""
    module, data = net(), batches(4)
    flat = FlatAdam(module.parameters(), 1e-2)
    weights, fresh = module_state(module), flat.state()
    for batch in data:
        flat.minimize(loss_of(module, batch))
    first = flat.flat.detach().clone()
    load_module(module, weights)
    flat.load(fresh)
    for batch in data:
        flat.minimize(loss_of(module, batch))
    assert torch.equal(flat.flat, first)


def test_a_state_is_a_copy() -> None:
    """Later steps do not reach what was saved."""
    module, (one, two) = net(), batches(2)
    flat = FlatAdam(module.parameters(), 1e-2)
    flat.minimize(loss_of(module, one))
    saved = flat.state()
    kept = {name: value.copy() for name, value in saved.items()}
    flat.minimize(loss_of(module, two))
    assert all((saved[name] == kept[name]).all() for name in kept)
    assert saved["step"] == 1


def test_parameters_without_gradient_stay() -> None:
    """What a loss does not touch is not log_ratio, though it shares the vector."""
    used, unused = net(), net()
    flat = FlatAdam([*used.parameters(), *unused.parameters()], 1e-2)
    before = [p.detach().clone() for p in unused.parameters()]
    for batch in batches(3):
        flat.minimize(loss_of(used, batch))
    assert all(torch.equal(p, q) for p, q in zip(unused.parameters(), before, strict=True))


@pytest.mark.parametrize("compiled", [True, False])
def test_a_stop_skips_steps(compiled: bool) -> None:
    """With a stop of 1 nothing changes, also not the number of steps; with 0 it is a step as without."""
    modules = [net(), net()]
    stopped, plain = (FlatAdam(module.parameters(), 1e-2, compiled=compiled) for module in modules)
    for k, batch in enumerate(batches(6)):
        stopped.stop = torch.tensor(float(k % 2))
        before = stopped.flat.detach().clone(), stopped.moments[0].clone(), stopped.steps.clone()
        length = stopped.minimize(loss_of(modules[0], batch), 0.5)
        assert length > 0
        if k % 2 == 0:
            plain.minimize(loss_of(modules[1], batch), 0.5)
            torch.testing.assert_close(stopped.flat, plain.flat, rtol=0.0, atol=0.0)
        else:
            assert all(map(torch.equal, before, (stopped.flat.detach(), stopped.moments[0], stopped.steps)))
    assert stopped.steps == 3


def test_the_rate_of_captured_steps_is_a_tensor() -> None:
    """It stays where it is, and follows `learning_rate`."""
    flat = FlatAdam(net().parameters(), 1e-2)
    address = flat.rate.data_ptr()
    flat.learning_rate = 0.5
    assert flat.rate.tolist() == [0.5] and flat.learning_rate == 0.5 and flat.rate.data_ptr() == address


@pytest.mark.parametrize("stop", [None, 0.0, 1.0])
@pytest.mark.parametrize("size", [7, 4096 * 3 + 5, 4096 * 40 + 1])
def test_a_step_in_parts_is_a_step(size: int, stop: float | None) -> None:
    """As GPUs make it: the same weights, moments and number of steps, also where steps are skipped."""
    found = []
    for in_parts in (False, True):
        adam = FlatAdam([nn.Parameter(torch.linspace(-1.0, 1.0, size))], 0.25, compiled=False)
        adam.stop = None if stop is None else torch.tensor(stop)
        for k in range(3):
            adam.gradient.copy_(torch.linspace(-0.5, 0.1 * k, size))
            with torch.no_grad():
                adam._step_in_parts() if in_parts else adam.step()
        found.append([adam.flat.detach(), *adam.moments, adam.steps])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
