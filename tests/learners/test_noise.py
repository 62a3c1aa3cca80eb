"""Exploration noise: its colour, its size, and going on exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.learners.noise import STRETCH, Noise, pink


def grad(noise: np.ndarray) -> float:
    """Of the logarithm of power over the logarithm of frequency."""
    power = (np.abs(np.fft.rfft(noise, axis=0)) ** 2).mean(1)[1:-1]
    return float(np.polyfit(np.log(np.arange(1, len(power) + 1)), np.log(power), 1)[0])


@pytest.mark.parametrize("steps", [1024, 501])
def test_pink_noise_falls_as_one_over_f(steps: int) -> None:
    """And its deviation over many draws is 1."""
    drawn = pink(steps, 2000, torch.Generator().manual_seed(0)).numpy()
    assert grad(drawn) == pytest.approx(-1.0, abs=0.05)
    assert drawn.std() == pytest.approx(1.0, abs=0.03)
    assert abs(drawn.mean()) < 0.05


def test_gaussian_noise_is_white() -> None:
    """The same power at every frequency."""
    noise = Noise("gaussian", 500, 2, torch.Generator().manual_seed(0))
    drawn = torch.stack([noise.sample(slice(0, 500)).flatten().clone() for _ in range(STRETCH)]).numpy()
    assert grad(drawn) == pytest.approx(0.0, abs=0.05)
    assert drawn.std() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("kind", ["gaussian", "pink"])
def test_going_on_is_exact(kind: str) -> None:
    """A saved noise goes on where it stood, across the end of a stretch, also with groups at different steps."""
    generator = torch.Generator().manual_seed(3)
    noise = Noise(kind, 4, 2, generator)  # type: ignore[arg-type]
    for _ in range(STRETCH - 5):
        noise.sample(slice(0, 2))
        noise.sample(slice(2, 4))
    noise.sample(slice(0, 2))
    other_generator = torch.Generator()
    other_generator.set_state(generator.get_state())
    other = Noise(kind, 4, 2, other_generator)  # type: ignore[arg-type]
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
