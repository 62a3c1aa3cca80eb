"""Exploration noise: its colour, its size, and going on exactly."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners.offpolicy_tools import Centre, assert_same, play
from rookery.errors import OptionError
from rookery.learners import registry
from rookery.learners.learner import Learner
from rookery.learners.noise import STRETCH, Noise, coloured

SEEN = spaces.Box(-2, 2, (1,), np.float32)
PUSH = spaces.Box(-2, 2, (1,), np.float32)
MIXED = spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)))


def grad(noise: np.ndarray) -> float:
    """Of the logarithm of power over the logarithm of frequency."""
    power = (np.abs(np.fft.rfft(noise, axis=0)) ** 2).mean(1)[1:-1]
    return float(np.polyfit(np.log(np.arange(1, len(power) + 1)), np.log(power), 1)[0])


@pytest.mark.parametrize(("exponent", "steps"), [(1.0, 1024), (1.0, 501), (0.5, 1024), (2.0, 1024)])
def test_the_power_of_coloured_noise_falls_with_the_frequency(exponent: float, steps: int) -> None:
    """And its deviation over many draws is 1."""
    drawn = coloured(exponent, (steps, 500, 4), torch.Generator().manual_seed(0)).flatten(1).numpy()
    assert grad(drawn) == pytest.approx(-exponent, abs=0.05)
    assert drawn.std() == pytest.approx(1.0, abs=0.03)
    assert abs(drawn.mean()) < 0.05


def test_gaussian_noise_is_white() -> None:
    """The same power at every frequency."""
    noise = Noise("gaussian", 500, 2, torch.Generator().manual_seed(0))
    drawn = torch.stack([noise.sample(slice(0, 500)).flatten().clone() for _ in range(STRETCH)]).numpy()
    assert grad(drawn) == pytest.approx(0.0, abs=0.05)
    assert drawn.std() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(("number", "name"), [(0.0, "gaussian"), (1.0, "pink")])
def test_numbers_stand_for_names(number: float, name: Any) -> None:
    one, two = (Noise(colour, 2, 1, torch.Generator().manual_seed(0)) for colour in (number, name))
    assert torch.equal(one.sample(slice(0, 2)), two.sample(slice(0, 2)))


@pytest.mark.parametrize("kind", ["gaussian", "pink", 0.5])
def test_going_on_is_exact(kind: Any) -> None:
    """A saved noise goes on where it stood, across the end of a stretch, also with groups at different steps."""
    generator = torch.Generator().manual_seed(3)
    noise = Noise(kind, 4, 2, generator)
    for _ in range(STRETCH - 5):
        noise.sample(slice(0, 2))
        noise.sample(slice(2, 4))
    noise.sample(slice(0, 2))
    other_generator = torch.Generator()
    other_generator.set_state(generator.get_state())
    other = Noise(kind, 4, 2, other_generator)
    other.load(noise.state())
    for _ in range(20):
        for rows in (slice(2, 4), slice(0, 2)):
            assert torch.equal(noise.sample(rows), other.sample(rows))


def test_another_number_of_envs() -> None:
    """Gets noise for all of them."""
    noise = Noise("pink", 2, 3, torch.Generator().manual_seed(0))
    noise.sample(slice(0, 2))
    noise.resize(5)
    assert noise.sample(slice(0, 5)).shape == (5, 3)


# --- of rollouts ------------------------------------------------------------------------------------------------------


def ppo(actions: spaces.Space = PUSH, num_envs: int = 3, **options: Any) -> Learner:
    small = {"hidden": [8], "rollout_length": 48, "minibatches": 2, "epochs": 1}
    return registry.make_learner("ppo", SEEN, actions, registry.PPOOptions(**{**small, **options}), num_envs, 1)


def noises(learner: Learner, rollouts: int) -> torch.Tensor:
    """What the actions of so many rollouts are sampled with."""
    return torch.cat([learner.sample_noise() for _ in range(rollouts)])


def test_noise_of_rollouts_goes_on_over_them() -> None:
    """Slow swings are longer than a rollout: within a stretch, all rollouts together are pink."""
    learner = ppo(num_envs=500, rollout_length=128, noise="pink")
    drawn = noises(learner, STRETCH // 128).flatten(1).numpy()
    assert grad(drawn) == pytest.approx(-1.0, abs=0.05)
    assert drawn.std() == pytest.approx(1.0, abs=0.05)


def test_only_continuous_parts_are_coloured() -> None:
    """Of mixed actions; choices keep their independent noise."""
    white, pink = (noises(ppo(MIXED, noise=colour, num_envs=200, rollout_length=256), 4) for colour in (0.0, 1.0))
    correlation = (pink[1:] * pink[:-1]).mean((0, 1)) - pink.mean((0, 1)) ** 2
    assert white.shape == pink.shape == (1024, 200, 5)
    assert (correlation[:3].abs() < 0.03).all() and (correlation[3:] > 0.5).all()


def test_discrete_actions_have_no_colour() -> None:
    with pytest.raises(OptionError, match="`noise` = 'pink'"):
        ppo(spaces.Discrete(3), noise="pink")


def learned(learner: Learner, envs: Centre, rounds: int, seen: Any = None) -> Any:
    """So many steps, with an update after each full rollout."""
    for _ in range(rounds):
        seen = play(learner, envs, 1, seen)
        if learner.ready():
            learner.update()
    return seen


@pytest.mark.few(1)
@pytest.mark.parametrize("rounds", [600, 1207])
def test_a_saved_learner_goes_on_with_its_noise(rounds: int) -> None:
    """Between rollouts and within one, of which the second goes beyond the end of a stretch."""
    learner, envs = ppo(noise="pink", rollout_length=600), Centre(3, 9, 0)
    seen = learned(learner, envs, rounds)
    other = ppo(noise="pink", rollout_length=600)
    other.load(copy.deepcopy(learner.state()))
    learned(other, copy.deepcopy(envs), 610, seen)
    learned(learner, envs, 610, seen)
    assert learner.updates == other.updates == (rounds + 610) // 600
    assert_same(learner.state(), other.state())


def test_all_accelerators_take_the_same_noise() -> None:
    """Compiled acting and the plain algorithm choose the same actions."""
    states = []
    for accelerate in (True, False):
        learner = ppo(noise="pink", accelerate=accelerate)
        play(learner, Centre(3, 9, 0), 40)
        states.append(learner.rollout.actions[:40])
    torch.testing.assert_close(*states)
