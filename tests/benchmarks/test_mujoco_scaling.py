"""`benchmarks/mujoco_scaling.py`: where the time of threads goes, from what they noted."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from mujoco_rounds import Rounds
from mujoco_scaling import longest, shares


def test_the_shares_add_up() -> None:
    """Two threads in a round of 100: one works for 40 and 30, the other for 60."""
    starts, ends = np.array([0, 100]), np.array([80, 180])
    first, last, busy = np.array([[5, 10]] * 2), np.array([[78, 70]] * 2), np.array([[70, 60]] * 2)
    found = shares(Rounds(starts, ends, first, last, busy, np.array([[40, 30, 60]] * 2)))
    assert found[:5] == pytest.approx((130 / 200, 15 / 200, 3 / 200, 12 / 200, 40 / 200))
    assert sum(found[:5]) == pytest.approx(1.0)
    assert found.best == pytest.approx(65 / 70)


def test_the_costliest_envs_are_taken_first() -> None:
    """The cheap ones fill what is left; if another was expected to be costly, it is late."""
    costs = np.array([1, 1, 1, 3])
    assert longest(costs, 2) == 3
    assert longest(costs, 2, np.array([4, 3, 2, 1])) == 4
    assert longest(np.array([5.0]), 4) == 5.0
