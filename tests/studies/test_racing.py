"""When another seed is worth its time."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.studies.trials.plans import FEW, may_be_best, pooled_deviation

KNOWN = [[480.0, 500.0, 490.0], [300.0, 320.0, 290.0]]


def test_every_trial_gets_seeds_while_the_spread_is_unknown():
    """Two trials with one repetition each are too few to know it."""
    assert may_be_best([1.0], [[500.0, 490.0, 505.0], [400.0, 410.0]][:1], 3)
    assert pooled_deviation([[1.0, 2.0], [3.0], [4.0, 6.0]]) is None


def test_a_trial_far_below_the_best_gets_no_more():
    assert not may_be_best([400.0], KNOWN, 3)
    assert not may_be_best([440.0, 450.0], KNOWN, 3)


def test_a_trial_within_the_noise_goes_on():
    assert may_be_best([475.0], KNOWN, 3)
    assert may_be_best([600.0], KNOWN, 3)


def test_trials_without_all_seeds_are_no_measure():
    """A single lucky seed is not what others must reach."""
    assert may_be_best([100.0], [[480.0], [300.0, 301.0], [200.0, 201.0, 202.0], [1.0, 2.0, 3.0]][:2], 3)
    assert may_be_best([205.0], [[480.0], [200.0, 210.0, 202.0], [100.0, 101.0, 102.0]], 3)


def test_a_trial_as_good_as_the_best_is_rarely_given_up():
    """And one that is three deviations worse nearly always."""
    known = [[0.0, 0.0, 0.0], *[[-11.0, -9.0, -10.0]] * 5]  # a pooled deviation of 0.91
    noise = np.random.default_rng(0).normal(0, 0.91, 200)
    given_up = {shift: np.mean([not may_be_best([x - shift], known, 3) for x in noise]) for shift in (0.0, 4.0)}
    assert given_up[0.0] <= 0.03 and given_up[4.0] >= 0.9


@pytest.mark.parametrize("trials", [[[1.0, 2.0]] * FEW, [[0.0, 0.0, 0.0]] * 2])
def test_the_pooled_deviation_is_that_within_trials(trials):
    expected = np.sqrt(
        sum(np.var(values, ddof=1) * (len(values) - 1) for values in trials) / sum(len(v) - 1 for v in trials)
    )
    assert pooled_deviation(trials) == pytest.approx(expected)
