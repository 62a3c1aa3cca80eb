"""The terms of a reward, one by one, on values that are made up."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from rookery.worlds.gameboy.profile_schema import Reward
from rookery.worlds.gameboy.rewards import Rewards

INDEX = {"a": 0, "b": 1}


def rewards(walk: list[tuple[int, int]], **term: object) -> list[float]:
    """What one term gives on the way through these values."""
    one = Rewards([Reward(name="term", weight=2.0, **term)], INDEX)
    one.begin(walk[0])
    return [one.give(before, now) for before, now in pairwise(walk)]


WALK = [(5, 0), (7, 0), (7, 1), (4, 1), (5, 0)]


@pytest.mark.parametrize(
    ("term", "given"),
    [
        ({"kind": "step"}, [2, 2, 2, 2]),
        ({"kind": "step", "when": "b == 1"}, [0, 2, 2, 0]),
        ({"kind": "change", "of": "a"}, [2, 0, 2, 2]),
        ({"kind": "change", "of": ["a", "b"]}, [2, 2, 2, 2]),
        ({"kind": "change", "of": "a", "direction": "up"}, [2, 0, 0, 2]),
        ({"kind": "change", "of": "a", "direction": "down"}, [0, 0, 2, 0]),
        ({"kind": "change", "of": "a", "by": "difference"}, [4, 0, -6, 2]),
        ({"kind": "change", "of": "a", "by": "difference", "direction": "up"}, [4, 0, 0, 2]),
        ({"kind": "change", "of": "a", "by": "difference", "direction": "down"}, [0, 0, 6, 0]),
        ({"kind": "change", "of": "a", "by": "difference", "jump": 3}, [4, 0, 0, 2]),
        ({"kind": "change", "of": "a", "when": "b == 0"}, [2, 0, 0, 2]),
        ({"kind": "first_visit", "of": "a"}, [2, 0, 2, 0]),
        ({"kind": "first_visit", "of": ["a", "b"]}, [2, 2, 2, 0]),
        ({"kind": "first_visit", "of": "a", "when": "b == 0"}, [2, 0, 0, 0]),
        ({"kind": "threshold", "when": "a >= 5"}, [2, 2, 0, 2]),
        ({"kind": "threshold", "when": "a < 5", "once": True}, [0, 0, 2, 0]),
        ({"kind": "threshold", "when": "a > 6", "once": True}, [2, 0, 0, 0]),
    ],
)
def test_each_kind(term, given):
    """When it is given, and how much."""
    assert rewards(WALK, **term) == given


def test_an_episode_forgets_the_last_one():
    """First visits and things that happen once start over."""
    terms = Rewards(
        [
            Reward(name="visit", kind="first_visit", of=["a"], weight=1.0),
            Reward(name="once", kind="threshold", when="a == 7", once=True, weight=10.0),
        ],
        INDEX,
    )
    for _ in range(2):
        terms.begin((5, 0))
        assert [terms.give((5, 0), (7, 0)) for _ in range(2)] == [11.0, 0.0]


def test_what_terms_remember_is_saved_as_arrays():
    """And a fresh one goes on from it."""
    given = [
        Reward(name="visit", kind="first_visit", of=["a", "b"], weight=1.0),
        Reward(name="each", kind="step", weight=0.5),
    ]
    first, second = Rewards(given, INDEX), Rewards(given, INDEX)
    first.begin((1, 1))
    first.give((1, 1), (2, 3))
    state = first.get_state()
    assert all(isinstance(array, np.ndarray) for array in state.values())
    second.set_state(state)
    for now in ((1, 1), (2, 3), (4, 4), (4, 4)):
        assert first.give((0, 0), now) == second.give((0, 0), now)
