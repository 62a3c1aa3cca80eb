"""PQN's own arithmetic: returns, values of several actions, exploration, masks; and that it learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners.offpolicy_tools import arrays
from learners.scripted import Script, play
from rookery.errors import OptionError
from rookery.learners.algorithms.pqn import PQN, epsilon_noise
from rookery.learners.learner import StepBatch
from rookery.learners.registry import PQNOptions

VECTOR = spaces.Box(-2, 2, (3,))
CHOICE = spaces.Discrete(3)
CHOICES = spaces.MultiDiscrete([3, 2])


def learner_with(actions: spaces.Space = CHOICE, num_envs: int = 4, **options: Any) -> PQN:
    settings = {"rollout_length": 6, "hidden": [8], "epochs": 2, "minibatches": 2, "epsilon_start": 0.5, **options}
    return PQN(VECTOR, actions, PQNOptions(**settings), num_envs)


def filled(actions: spaces.Space = CHOICE, masked: bool = False, **options: Any) -> tuple[PQN, Script]:
    """A learner with a full rollout, and what it has seen."""
    learner = learner_with(actions, **options)
    sizes = tuple(int(n) for n in np.ravel(getattr(actions, "nvec", getattr(actions, "n", 0))))
    script = Script(VECTOR, 4, choices=sizes if masked else ())
    play(learner, script, learner.options.rollout_length)
    return learner, script


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("actions", [CHOICE, CHOICES], ids=["one", "two"])
def test_returns_are_the_papers(actions: spaces.Space, masked: bool) -> None:
    """R(t) = r + gamma (lambda R(t+1) + (1 - lambda) max Q(t+1)), from the end to the start. The last observation of a
    truncated episode counts, one after a terminated episode does not, and forbidden actions have no part in it."""
    learner, script = filled(actions, masked, q_lambda=0.6, gamma=0.9)
    rollout, sizes = learner.rollout, learner.policy.sizes

    def best(observation: Any, mask: Any) -> float:
        with torch.no_grad():
            values = learner.policy([torch.as_tensor(observation).reshape(1, -1)])[0].numpy()
        values = values if mask is None else np.where(mask, values, -np.inf)
        return sum(part.max() for part in np.split(values, np.cumsum(sizes)[:-1]))

    found = learner.evaluate_rollout()["returns"]
    for env in range(4):
        later = None
        for t in reversed(range(rollout.length)):
            _, answer = script.history[t]
            if answer.terminated[env]:
                value = 0.0
            elif answer.truncated[env]:
                value = best(answer.finals[env], None)
            else:
                value = best(answer.observations[env], None if answer.mask is None else answer.mask[env])
            ended = answer.terminated[env] or answer.truncated[env] or later is None
            later = answer.rewards[env] + 0.9 * (value if ended else 0.6 * later + 0.4 * value)
            assert found[t, env].item() == pytest.approx(later, abs=1e-4)


def test_the_loss_is_half_the_squared_error_of_what_was_done() -> None:
    """The value of two actions is the sum of both."""
    learner, _ = filled(CHOICES)
    (part,) = learner.rollout.minibatches(learner.evaluate_rollout(), 1, learner.generator)
    values = learner.policy([part["leaf0"]]).detach()
    taken = [float(row[a] + row[3 + b]) for row, (a, b) in zip(values, part["actions"].tolist(), strict=True)]
    expected = 0.5 * np.mean((np.array(taken) - part["returns"].numpy()) ** 2)
    assert learner.loss(part).item() == pytest.approx(expected, rel=1e-5)


def test_hidden_layers_are_normalised() -> None:
    """Mean 0 and variance 1 over the units of a row, so that the scale of an observation does not matter."""
    learner = learner_with(hidden=[16])
    x = torch.randn(5, 3)
    weight, bias = learner.policy.net.layer_params[0]
    units = torch.nn.functional.layer_norm(x @ weight.T + bias, (16,))
    assert units.mean(1).abs().max() < 1e-6 and (units.var(1, unbiased=False) - 1).abs().max() < 1e-2
    assert torch.allclose(learner.policy([100 * x]), learner.policy([1000 * x]), atol=1e-4)


def test_a_share_of_the_actions_is_random() -> None:
    """Uniform among those that are allowed, whatever their values; the others are the best."""
    generator = torch.Generator().manual_seed(1)
    noise = epsilon_noise(torch.rand(40_000, 4, generator=generator), torch.tensor(0.3))
    values = torch.tensor([50.0, -1e9, -500.0])  # the second is forbidden
    counts = torch.bincount((values + noise).argmax(1), minlength=3) / 40_000
    assert counts[1] == 0 and counts[2].item() == pytest.approx(0.15, abs=0.01)
    assert (noise == 0).all(1).float().mean().item() == pytest.approx(0.7, abs=0.01)


def test_epsilon_falls_and_is_set_by_updates() -> None:
    """For the rollout after an update, by the progress of the run."""
    learner, script = filled(epsilon_start=1.0, epsilon_end=0.1, epsilon_fraction=0.5)
    assert [learner.epsilon(x) for x in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
    assert learner.execution.epsilon.item() == 1.0
    learner.progress = 0.25
    learner.update()
    assert learner.execution.epsilon.item() == pytest.approx(0.55)
    play(learner, script, 1)


@pytest.mark.parametrize("steps", [6, 8], ids=["between rollouts", "within one"])
def test_it_goes_on_where_it_was(steps: int) -> None:
    """Bit for bit, with masks and with the share of random actions that was set."""
    one, two = (learner_with(CHOICES) for _ in range(2))
    scripts = [Script(spaces.Box(-2, 2, (3,)), 4, choices=(3, 2)) for _ in range(2)]  # each samples its own space
    one.progress = two.progress = 0.1

    def go(learner: PQN, script: Script, count: int) -> None:
        for _ in range(count):
            play(learner, script, 1)
            if learner.ready():
                learner.update()

    go(one, scripts[0], steps)
    two.load(one.state())
    for script in scripts[1:]:
        for _ in range(steps):
            script.step()
    go(one, scripts[0], 12)
    go(two, scripts[1], 12)
    first, second = arrays(one.state()), arrays(two.state())
    assert first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def test_other_actions_are_refused() -> None:
    with pytest.raises(OptionError, match="PQN cannot act in Box"):
        learner_with(spaces.Box(-1, 1, (2,)))


@pytest.mark.push("vectors")
@pytest.mark.parametrize("image", [False, True], ids=["vectors", "images"])
def test_it_learns_which_action_fits(image: bool) -> None:
    """A world of one step: the action that the observation shows is worth 1, others nothing."""
    space = spaces.Box(0, 255, (12, 12, 1), np.uint8) if image else spaces.Box(0, 1, (3,))
    options = PQNOptions(rollout_length=8, hidden=[32], learning_rate=3e-3, epsilon_end=0.2, epsilon_fraction=0.1)
    learner, rng, rows = PQN(space, CHOICE, options, 16), np.random.default_rng(0), slice(0, 16)

    def shown(targets: np.ndarray) -> np.ndarray:
        if not image:
            return np.eye(3, dtype=np.float32)[targets]
        pictures = np.zeros((len(targets), 12, 12, 1), np.uint8)
        for picture, target in zip(pictures, targets, strict=True):
            picture[:, 4 * target : 4 * target + 4] = 255
        return pictures

    targets, ended = rng.integers(3, size=16), np.ones(16, bool)
    for update in range(40):
        learner.progress = update / 40
        for _ in range(8):
            seen = shown(targets)
            rewards = (learner.explore(seen, rows) == targets).astype(float)
            targets = rng.integers(3, size=16)
            finals = np.arange(16), list(seen)
            learner.record(rows, StepBatch(shown(targets), rewards, ended, ~ended, finals))
        metrics = learner.update()
    assert set(metrics) == {"loss", "value", "gradient"}
    assert learner.agent.act(shown(np.arange(3)), deterministic=True).tolist() == [0, 1, 2]
