"""Random numbers of kernel worlds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from rookery.kernel.random import integer, normal, philox, uniform


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0), 0, 0xFF1DAE596CD10DF2),
        ((0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFF, 0x2C3F628BAB4FD7AD),
        ((0x243F6A88, 0x85A308D3), 0x13198A2E, 0xDD7CE038F62A4C12),
    ],
)
def test_philox_gives_the_published_numbers(counter, key, expected):
    """Known answers of Philox2x32-10."""
    words = [np.uint64(word) for word in (key, *counter)]
    assert int(philox(*words)) == expected


def state(seed=1, episode=1):
    return SimpleNamespace(seed=seed, episode=episode, draws=0)


def test_draws_are_a_function_of_seed_episode_and_count():
    """The same key gives the same numbers, and any change of it gives others."""
    first, same, other_seed, other_episode = state(), state(), state(seed=2), state(episode=2)
    drawn = [uniform(first, 0, 1) for _ in range(5)]
    assert drawn == [uniform(same, 0, 1) for _ in range(5)]
    others = [uniform(s, 0, 1) for s in (other_seed, other_episode) for _ in range(5)]
    assert len({*drawn, *others}) == 15


def test_distributions():
    """Means and spreads are what they should be, and bounds are kept."""
    s = state()
    flat = np.array([uniform(s, -2.0, 6.0) for _ in range(4000)])
    assert flat.min() >= -2 and flat.max() < 6
    assert abs(flat.mean() - 2) < 0.15
    bell = np.array([normal(s, 1.0, 3.0) for _ in range(4000)])
    assert abs(bell.mean() - 1) < 0.2 and abs(bell.std() - 3) < 0.2
    dice = np.array([integer(s, 1, 7) for _ in range(3000)])
    assert sorted(set(dice.tolist())) == [1, 2, 3, 4, 5, 6]
