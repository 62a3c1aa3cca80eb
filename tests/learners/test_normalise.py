"""Running statistics: against NumPy over everything at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.learners.learner import load_module, module_state
from rookery.learners.normalize import CLIP, ReturnScale, RunningNorm


@pytest.mark.parametrize("cuts", [[], [1], [1, 2, 3], [10, 11, 400], list(range(1, 500))], ids=len)
def test_any_split_into_batches_gives_the_same_statistics(cuts: list[int]) -> None:
    """Mean and variance are NumPy's over all rows, however they were divided."""
    rows = np.random.default_rng(0).normal([100.0, -3.0, 0.0], [0.5, 20.0, 1e-3], (500, 3))
    norm = RunningNorm(3)
    for part in np.split(rows, cuts):
        norm.update(torch.from_numpy(part))
    np.testing.assert_allclose(norm.mean.numpy(), rows.mean(0), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(norm.variance.numpy(), rows.var(0), rtol=1e-9)
    assert norm.count.item() == 500


def test_further_axes_are_rows_too() -> None:
    """[steps, envs, size] counts as steps * envs rows."""
    rows = torch.randn(4, 5, 2, generator=torch.Generator().manual_seed(0))
    one, other = RunningNorm(2), RunningNorm(2)
    one.update(rows)
    other.update(rows.reshape(20, 2))
    assert torch.equal(one.variance, other.variance)
    assert one.count.item() == 20


def test_values_are_shifted_scaled_and_clipped() -> None:
    """Normalised values have mean 0 and deviation 1, outliers end at the clip, and a constant becomes 0."""
    rows = torch.stack([torch.arange(100.0), torch.full((100,), 7.0)], 1)
    norm = RunningNorm(2)
    norm.update(rows)
    result = norm(rows)
    torch.testing.assert_close(result.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(result.std(0, correction=0), torch.tensor([1.0, 0.0]), atol=1e-5, rtol=0)
    assert norm(torch.tensor([[1e6, -1e6]])).tolist() == [[CLIP, -CLIP]]
    assert result.dtype == torch.float32


def test_before_any_update_values_pass_through() -> None:
    """Without statistics there is nothing to shift or scale by."""
    torch.testing.assert_close(RunningNorm(2)(torch.tensor([[3.0, -4.0]])), torch.tensor([[3.0, -4.0]]))


def test_an_update_shows_at_once() -> None:
    """What `forward` keeps of the statistics is forgotten when they change."""
    norm, value = RunningNorm(1), torch.tensor([[5.0]])
    assert norm(value).item() == pytest.approx(5.0)
    norm.update(torch.tensor([[4.0], [6.0]]))
    assert norm(value).item() == pytest.approx(0.0)


def test_statistics_are_saved_and_restored() -> None:
    """They are part of a module's state, and loading them takes effect even after `forward` was used."""
    trained, fresh = RunningNorm(1), RunningNorm(1)
    trained.update(torch.tensor([[4.0], [6.0]]))
    value = torch.tensor([[7.0]])
    fresh(value)
    load_module(fresh, module_state(trained))
    assert torch.equal(fresh(value), trained(value))
    fresh.update(torch.tensor([[1.0]]))
    trained.update(torch.tensor([[1.0]]))
    assert torch.equal(fresh(value), trained(value))


def test_a_saved_state_is_not_touched_by_training() -> None:
    """What was saved is a copy."""
    norm = RunningNorm(1)
    saved = module_state(norm)
    norm.update(torch.tensor([[4.0], [6.0]]))
    assert saved["mean"].tolist() == [0.0]


def test_small_deviations_far_from_zero_keep_their_precision() -> None:
    """After ten million rows around 1000 the variance of 0.01 is still right."""
    norm = RunningNorm(1)
    norm.count.fill_(1e7)
    norm.mean.fill_(1000.0)
    norm.variance.fill_(0.01)
    norm.update(torch.tensor([[999.9], [1000.1]]))
    assert norm.variance.item() == pytest.approx(0.01, rel=1e-6)


def slow_returns(rewards: np.ndarray, ended: np.ndarray, gamma: float) -> np.ndarray:
    """Discounted sums of what each env got so far in its episode."""
    found = np.zeros_like(rewards)
    for env in range(rewards.shape[1]):
        total = 0.0
        for t in range(len(rewards)):
            total = total * gamma + rewards[t, env]
            found[t, env] = total
            if ended[t, env]:
                total = 0.0
    return found


def test_rewards_are_scaled_by_the_deviation_of_returns() -> None:
    """Over several rollouts, with ends of episodes, the scale is one over the deviation of all returns so far."""
    random = np.random.default_rng(2)
    rewards, ended = random.normal(1, 3, (60, 4)).astype(np.float32), random.random((60, 4)) < 0.1
    scale = ReturnScale(4, 0.9)
    for part in (slice(0, 20), slice(20, 50), slice(50, 60)):
        scale.update(torch.from_numpy(rewards[part]), torch.from_numpy(ended[part]))
    deviation = slow_returns(rewards.astype(np.float64), ended, 0.9).std()
    assert scale.scale(torch.tensor([2.0])).item() == pytest.approx(2.0 / deviation, rel=1e-5)


def test_scaled_rewards_are_clipped_but_not_shifted() -> None:
    """A reward of 0 stays 0, an outlier ends at the clip."""
    scale = ReturnScale(1, 0.5)
    scale.update(torch.tensor([[1.0], [3.0]]), torch.tensor([[True], [True]]))
    assert scale.scale(torch.tensor([0.0, 1.0, 1e9])).tolist() == pytest.approx([0.0, 1.0, CLIP])


def test_resizing_keeps_the_envs_that_stay() -> None:
    """Envs go and come at the end; new ones begin with nothing."""
    scale = ReturnScale(3, 0.5)
    scale.update(torch.tensor([[1.0, 2.0, 3.0]]), torch.zeros(1, 3, dtype=torch.bool))
    scale.resize(2)
    assert scale.running.tolist() == [1.0, 2.0]
    scale.resize(4)
    assert scale.running.tolist() == [1.0, 2.0, 0.0, 0.0]
    assert "running" in module_state(scale)


def test_a_device_without_double_precision() -> None:
    """Apple's GPUs refuse it: the statistics are in single precision there."""

    def move(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        return tensor.clone()

    norm, other = RunningNorm(2), RunningNorm(2)
    norm.update(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
    moved = norm._apply(move)
    moved.update(torch.tensor([[5.0, 1.0], [0.0, 0.0]]))
    other.update(torch.tensor([[1.0, 2.0], [3.0, 6.0], [5.0, 1.0], [0.0, 0.0]]))
    assert moved.mean.dtype == torch.float32
    torch.testing.assert_close(moved(torch.ones(1, 2)), other(torch.ones(1, 2)))
    other.load_state_dict(moved.state_dict())
    assert other.mean.dtype == torch.float64


@pytest.mark.parametrize("floor", [1e-8, 1e-2])
def test_a_new_one_scales_as_its_statistics_say(floor: float) -> None:
    fresh, refreshed = RunningNorm(2, floor), RunningNorm(2, floor)
    refreshed.load_state_dict(fresh.state_dict())
    assert torch.equal(fresh.scale, refreshed.scale) and torch.equal(fresh.shift, refreshed.shift)
