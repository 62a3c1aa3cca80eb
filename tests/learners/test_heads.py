"""Heads: against torch.distributions, by counting samples, and under masks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor
from torch.distributions import Bernoulli, Independent, Normal
from torch.distributions import Categorical as TorchCategorical

from rookery.errors import OptionError
from rookery.learners.heads import BernoulliHead, CategoricalHead, GaussianHead, Head, MultiCategoricalHead, head_for

ROWS = 40_000


def logits(rows: int, width: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)) * 2


def samples(head: Head, outputs: Tensor, rows: int = ROWS) -> Tensor:
    """Many samples for the same outputs."""
    noise = head.sample_noise(rows, generator=torch.Generator().manual_seed(3))
    return head.sample(outputs.expand(rows, -1), noise)


def test_categorical_agrees_with_torch() -> None:
    """Log-probabilities of every action and the entropy are torch.distributions.Categorical's."""
    head, outputs = CategoricalHead(spaces.Discrete(5)), logits(6, 5)
    reference = TorchCategorical(logits=outputs)
    for action in range(5):
        actions = torch.full((6,), action)
        torch.testing.assert_close(head.log_prob(outputs, actions), reference.log_prob(actions))
    torch.testing.assert_close(head.entropy(outputs), reference.entropy().mean())


def test_multi_categorical_agrees_with_torch() -> None:
    """Log-probabilities are the sums over the choices, and so are entropies."""
    head, outputs = MultiCategoricalHead(spaces.MultiDiscrete([3, 2, 4])), logits(6, 9)
    references = [TorchCategorical(logits=part) for part in outputs.split([3, 2, 4], -1)]
    actions = torch.tensor([[0, 1, 3], [2, 0, 0], [1, 1, 1], [2, 1, 2], [0, 0, 0], [2, 1, 3]])
    expected = sum(reference.log_prob(actions[:, k]) for k, reference in enumerate(references))
    torch.testing.assert_close(head.log_prob(outputs, actions), expected)
    torch.testing.assert_close(head.entropy(outputs), sum(r.entropy() for r in references).mean())


def test_switches_agree_with_torch() -> None:
    """Log-probabilities and entropy are those of independent Bernoullis."""
    head, outputs = BernoulliHead(spaces.MultiBinary(4)), logits(6, 4)
    reference = Independent(Bernoulli(logits=outputs), 1)
    actions = (logits(6, 4, seed=1) > 0).long()
    torch.testing.assert_close(head.log_prob(outputs, actions), reference.log_prob(actions.float()))
    torch.testing.assert_close(head.entropy(outputs), reference.entropy().mean())


def test_gaussian_agrees_with_torch() -> None:
    """Log-probabilities and entropy are those of independent Normals with the head's own deviations."""
    head, outputs = GaussianHead(spaces.Box(-1, 1, (3,)), -0.5), logits(6, 3)
    head.log_std.data = torch.tensor([-0.5, 0.0, 0.7])
    reference = Independent(Normal(outputs, head.log_std.exp()), 1)
    actions = logits(6, 3, seed=1)
    torch.testing.assert_close(head.log_prob(outputs, actions), reference.log_prob(actions))
    torch.testing.assert_close(head.entropy(outputs), reference.entropy().mean())


def test_gumbel_samples_come_as_often_as_they_should() -> None:
    """The share of each action among 40,000 samples is its probability, within four standard errors."""
    head, outputs = CategoricalHead(spaces.Discrete(4)), torch.tensor([[0.0, 1.0, -1.0, 2.0]])
    wanted = torch.softmax(outputs[0], -1)
    share = torch.bincount(samples(head, outputs), minlength=4) / ROWS
    assert ((share - wanted).abs() < 4 * (wanted * (1 - wanted) / ROWS).sqrt()).all()


def test_multi_categorical_samples_are_right_and_independent() -> None:
    """Pairs of choices come as often as the product of their probabilities says."""
    head, outputs = MultiCategoricalHead(spaces.MultiDiscrete([2, 3])), torch.tensor([[0.5, -0.5, 0.0, 1.0, -1.0]])
    wanted = torch.outer(torch.softmax(outputs[0, :2], -1), torch.softmax(outputs[0, 2:], -1)).flatten()
    drawn = samples(head, outputs)
    share = torch.bincount(drawn[:, 0] * 3 + drawn[:, 1], minlength=6) / ROWS
    assert ((share - wanted).abs() < 4 * (wanted * (1 - wanted) / ROWS).sqrt()).all()


def test_switches_are_on_as_often_as_they_should_be() -> None:
    """The share of ones is the sigmoid of the output."""
    head, outputs = BernoulliHead(spaces.MultiBinary(3)), torch.tensor([[0.0, 1.5, -2.0]])
    wanted = torch.sigmoid(outputs[0])
    share = samples(head, outputs).float().mean(0)
    assert ((share - wanted).abs() < 4 * (wanted * (1 - wanted) / ROWS).sqrt()).all()


def test_gaussian_samples_have_mean_and_deviation() -> None:
    """Samples have the net's mean and the head's deviation."""
    head = GaussianHead(spaces.Box(-1, 1, (2,)), 0.7)
    drawn = samples(head, torch.tensor([[3.0, -3.0]])).detach()
    torch.testing.assert_close(drawn.mean(0), torch.tensor([3.0, -3.0]), atol=0.05, rtol=0)
    torch.testing.assert_close(drawn.std(0), torch.full((2,), 0.7).exp(), atol=0.05, rtol=0)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=-2),
        spaces.MultiDiscrete([2, 3], start=[5, -1]),
        spaces.MultiDiscrete([[2, 3], [4, 2]]),
        spaces.MultiBinary(4),
        spaces.MultiBinary([2, 3]),
        spaces.Box(-0.1, 0.2, (3,), np.float32),
        spaces.Box(-0.1, 0.2, (2, 2), np.float32),
        spaces.Box(-0.1, 0.2, (), np.float32),
    ],
    ids=str,
)
def test_actions_lie_in_the_space(space: spaces.Space) -> None:
    """Sampled and deterministic actions for the env are members of its space, with one log-probability per row."""
    head = head_for(space, 0.0)
    outputs = logits(50, head.outputs)
    drawn = head.sample(outputs, head.sample_noise(50, generator=torch.Generator().manual_seed(0)))
    assert drawn.shape == (50, *head.shape)
    assert head.log_prob(outputs, drawn).shape == (50,)
    for actions in (drawn, head.mode(outputs)):
        for action in head.to_env(actions).detach().numpy():
            assert space.contains(np.asarray(action)), action


def test_discrete_start_is_added_for_the_env_only() -> None:
    """The head counts from 0; the env is given numbers from `start`."""
    head = CategoricalHead(spaces.Discrete(3, start=7))
    best = head.mode(torch.tensor([[0.0, 0.0, 5.0]]))
    assert best.tolist() == [2]
    assert head.to_env(best).tolist() == [9]


def test_multi_discrete_start_is_added_to_each_choice() -> None:
    """Each choice has a start of its own."""
    head = MultiCategoricalHead(spaces.MultiDiscrete([2, 3], start=[10, -1]))
    assert head.to_env(head.mode(torch.tensor([[0.0, 5.0, 0.0, 0.0, 5.0]]))).tolist() == [[11, 1]]


def test_multi_binary_actions_are_int8() -> None:
    """As gymnasium's MultiBinary has them."""
    head = BernoulliHead(spaces.MultiBinary(2))
    actions = head.to_env(head.mode(torch.tensor([[1.0, -1.0]])))
    assert actions.dtype == torch.int8
    assert actions.tolist() == [[1, 0]]


def test_continuous_actions_are_cut_for_the_env_only() -> None:
    """The env gets actions within its bounds, each with its own; the head keeps what it drew."""
    head = GaussianHead(spaces.Box(np.float32([-1, -2]), np.float32([1, 3])), 0.0)
    kept = head.sample(torch.tensor([[5.0, -5.0], [0.5, 2.5]]), torch.zeros(2, 2))
    assert kept.tolist() == [[5.0, -5.0], [0.5, 2.5]]
    assert head.to_env(kept).tolist() == [[1.0, -2.0], [0.5, 2.5]]


@pytest.mark.parametrize("space", [spaces.Discrete(5), spaces.MultiDiscrete([2, 3])], ids=str)
def test_masked_actions_are_never_taken(space: spaces.Space) -> None:
    """Not in 40,000 samples, nor as the deterministic one, though the net favours them by far."""
    head = head_for(space, 0.0)
    mask = torch.tensor([[False, True, True, False, True]])
    outputs = head.apply_mask(torch.tensor([[80.0, 0.0, 0.0, 80.0, 0.0]]), mask)
    chosen = torch.cat([samples(head, outputs), head.mode(outputs)]).reshape(ROWS + 1, -1)
    if len(head.shape):
        assert (chosen[:, 0] == 1).all()
        assert set(chosen[:, 1].tolist()) == {0, 2}
    else:
        assert set(chosen[:, 0].tolist()) == {1, 2, 4}


@pytest.mark.parametrize("space", [spaces.Discrete(5), spaces.MultiDiscrete([2, 3])], ids=str)
def test_masks_leave_gradients_whole(space: spaces.Space) -> None:
    """Log-probabilities and entropy are those of the allowed actions alone, and masked outputs get no gradient."""
    head = head_for(space, 0.0)
    mask = torch.tensor([[False, True, True, False, True]])
    outputs = logits(1, 5).requires_grad_()
    masked = head.apply_mask(outputs, mask)
    action = head.mode(masked)
    (head.log_prob(masked, action).sum() + head.entropy(masked)).backward()
    assert torch.isfinite(outputs.grad).all()
    assert (outputs.grad[~mask] == 0).all()
    assert outputs.grad[mask].any()
    allowed = [outputs[0, 1:2], outputs[0, [2, 4]]] if len(head.shape) else [outputs[0, [1, 2, 4]]]
    expected = sum(TorchCategorical(logits=part).entropy() for part in allowed)
    torch.testing.assert_close(head.entropy(masked), expected)


def test_where_nothing_is_allowed_something_is_done() -> None:
    """A mask without a single allowed action gives an action and finite log-probabilities, not NaN."""
    head = CategoricalHead(spaces.Discrete(3))
    outputs = head.apply_mask(logits(2, 3), torch.zeros(2, 3, dtype=torch.bool))
    actions = head.sample(outputs, head.sample_noise(2, generator=torch.Generator().manual_seed(0)))
    assert torch.isfinite(head.log_prob(outputs, actions)).all()
    assert torch.isfinite(head.entropy(outputs))


@pytest.mark.parametrize("space", [spaces.MultiBinary(2), spaces.Box(-1, 1, (2,))], ids=str)
def test_masks_need_choices(space: spaces.Space) -> None:
    """A mask over actions that are not choices is rejected in words."""
    head = head_for(space, 0.0)
    with pytest.raises(OptionError, match="masks need discrete actions"):
        head.apply_mask(torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool))


def test_draws_do_not_depend_on_groups() -> None:
    """Noise for a rollout is drawn at once: [steps, envs, numbers], repeatable from the generator's seed."""
    head = CategoricalHead(spaces.Discrete(3))
    first, second = (head.sample_noise(4, 6, generator=torch.Generator().manual_seed(5)) for _ in range(2))
    assert first.shape == (4, 6, 3)
    assert torch.equal(first, second)
    assert torch.isfinite(first).all()


@pytest.mark.parametrize(
    "space", [spaces.Box(0, 9, (2,), np.int64), spaces.Text(3), spaces.Dict(a=spaces.Text(3)), spaces.Tuple(())]
)
def test_other_action_spaces_are_refused(space: spaces.Space) -> None:
    """The error says what PPO takes."""
    with pytest.raises(OptionError, match="it takes Discrete, MultiDiscrete, MultiBinary and Box of floats"):
        head_for(space, 0.0)
