"""`benchmarks/mujoco_scaling.py`: where the time of threads goes, from what they noted."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from mujoco_rounds import Rounds, _read
from mujoco_scaling import round_time, shares


def test_the_shares_add_up() -> None:
    """Two threads in a round of 100: one works for 40 and 30, the other for 60."""
    starts, ends = np.array([0, 100]), np.array([80, 180])
    first, last, busy = np.array([[5, 10]] * 2), np.array([[78, 70]] * 2), np.array([[70, 60]] * 2)
    found = shares(Rounds(starts, ends, first, last, busy, np.array([[[40, 30, 60]]] * 2)))
    assert found[:5] == pytest.approx((130 / 200, 15 / 200, 3 / 200, 12 / 200, 40 / 200))
    assert sum(found[:5]) == pytest.approx(1.0)
    assert found.best == pytest.approx(65 / 70)


def test_the_costliest_envs_are_taken_first() -> None:
    """The cheap ones fill what is left; if another was expected to be costly, it is late."""
    costs, one = np.array([[1, 1, 1, 3]]), np.array([[5.0]])
    assert round_time(costs, costs, 2) == 3
    assert round_time(costs, np.array([[4, 3, 2, 1]]), 2) == 4
    assert round_time(one, one, 4) == 5.0


def test_last_parts_of_steps_follow_the_first_ones() -> None:
    """A thread that has nothing to begin makes the last part of another's step, once that has begun."""
    costs = np.array([[3, 3, 3], [1, 1, 1]])
    assert round_time(costs.sum(0, keepdims=True), costs, 2) == 8
    assert round_time(costs, costs, 2) == 7  # one makes two last parts while the other still begins the third step
    assert round_time(np.array([[3], [1]]), np.array([[3], [1]]), 2) == 4


def test_both_parts_of_a_step_are_read() -> None:
    """Of two envs on two threads: the second makes both last parts."""
    costs, began, slots = [[[30, 40], [10, 10]], [[0, 0], [40, 50]], [[0, 1], [1, 1]]]
    found = _read([(0, 60, np.array([costs, began, slots]))], 2)
    assert found.first.tolist() == [[0, 0]] and found.last.tolist() == [[30, 60]]
    assert found.busy.tolist() == [[30, 60]] and found.costs.shape == (1, 2, 2)
