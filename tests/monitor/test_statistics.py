"""Interquartile means and intervals against values that were computed by hand, or follow from the definition."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.monitor.statistics import bootstrap_interval, interquartile_mean, mean_interval


@pytest.mark.parametrize(
    ("values", "expected"),
    [([7], 7), ([1, 3], 2), ([0, 1, 5], 2), ([4, 1, 3, 2], 2.5), ([-100, 1, 2, 3, 100], 2),
     ([0, 0, 1, 2, 3, 4, 9, 9], 2.5), (range(12), 5.5)],
)  # fmt: skip
def test_a_quarter_is_cut_at_each_end_rounded_down(values, expected):
    """As scipy.stats.trim_mean(values, 0.25), which rliable calls."""
    assert interquartile_mean(values) == pytest.approx(expected)


def test_points_of_a_curve_are_taken_one_by_one():
    curves = np.array([[0.0, 40.0], [10.0, 30.0], [20.0, 20.0], [30.0, 10.0], [1e6, -1e6]])
    assert interquartile_mean(curves).tolist() == [20.0, 20.0]


def test_the_interval_is_that_of_the_exact_bootstrap():
    """Of three values there are 27 equally likely samples, so the percentiles are known."""
    values = [0.0, 1.0, 10.0]
    exact = np.sort([np.mean([a, b, c]) for a in values for b in values for c in values])
    low, high = bootstrap_interval(values, confidence=0.8)
    assert low == pytest.approx(np.percentile(np.repeat(exact, 1000), 10))
    assert high == pytest.approx(np.percentile(np.repeat(exact, 1000), 90))


def test_the_interval_covers_the_mean_as_often_as_it_says():
    """Of 200 experiments with 20 runs each, about 95 % of the intervals contain the true mean."""
    draws = np.random.default_rng(3).normal(5.0, 2.0, (200, 20))
    covered = 0
    for runs in draws:
        low, high = bootstrap_interval(runs, resamples=400)
        covered += low <= 5.0 <= high
    assert 175 <= covered <= 198


def test_the_same_values_give_the_same_interval():
    values = np.random.default_rng(1).normal(size=(5, 3))
    first, second = (np.array(bootstrap_interval(values, resamples=500)) for _ in range(2))
    assert first.shape == (2, 3) and (first == second).all()
    assert (first[0] <= interquartile_mean(values)).all() and (interquartile_mean(values) <= first[1]).all()


def test_runs_that_agree_have_no_width():
    assert [float(end) for end in bootstrap_interval([500.0] * 5)] == [500.0, 500.0]
    assert mean_interval(3.0, 0.0, 10) == (3.0, 3.0)
