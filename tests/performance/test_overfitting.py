"""How likely a backtest is luck: the published worked examples."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from rookery.errors import OptionError
from rookery.performance import overfitting
from rookery.performance.overfitting import (
    backtest_overfitting,
    deflated_sharpe,
    expected_maximum_sharpe,
    minimum_track_record,
    moments,
    probabilistic_sharpe,
)
from rookery.performance.ratios import sharpe


def test_the_probabilistic_sharpe_ratio_of_the_paper() -> None:
    """Bailey and López de Prado (2012), "The Sharpe Ratio Efficient Frontier": a hedge fund with 24 monthly returns and
    the Sharpe ratio 0.458: 0.982 if they were normal, 0.913 with skewness -2.448 and kurtosis 10.164."""
    assert probabilistic_sharpe(0.458, 24) == pytest.approx(0.982, abs=5e-4)
    assert probabilistic_sharpe(0.458, 24, skewness=-2.448, kurtosis=10.164) == pytest.approx(0.913, abs=5e-4)


@pytest.mark.parametrize(
    ("per_year", "skewness", "kurtosis", "years"),
    [(252, 0, 3, 2.73), (52, 0, 3, 2.83), (12, 0, 3, 3.24), (12, -0.72, 5.78, 4.99)],
)
def test_the_minimum_track_records_of_the_paper(per_year: int, skewness: float, kurtosis: float, years: float) -> None:
    """The same paper: an annual Sharpe ratio of 2 is above 1 with 95 % confidence after so many years of daily, weekly
    and monthly normal returns, and of monthly returns with the moments of an index of hedge funds."""
    root = math.sqrt(per_year)
    needed = minimum_track_record(2 / root, 1 / root, skewness, kurtosis)
    assert needed / per_year == pytest.approx(years, abs=0.005)
    assert probabilistic_sharpe(2 / root, needed, skewness, kurtosis, 1 / root) == pytest.approx(0.95)


def test_the_deflated_sharpe_ratio_of_the_paper() -> None:
    """Bailey and López de Prado (2014), "The Deflated Sharpe Ratio", numerical example: an annual Sharpe ratio of 2.5
    in five years of 250 daily returns, the best of 100 trials with the variance 1/2 (annual), skewness -3, kurtosis 10.
    With 46 trials it would have been significant at 95 %; with normal returns, with 88."""
    best, variance = 2.5 / math.sqrt(250), 0.5 / 250
    assert expected_maximum_sharpe(100, variance) == pytest.approx(0.1132, abs=5e-5)
    assert deflated_sharpe(best, 1250, 100, variance, -3, 10) == pytest.approx(0.9004, abs=5e-5)
    assert deflated_sharpe(best, 1250, 46, variance, -3, 10) == pytest.approx(0.9505, abs=5e-5)
    assert deflated_sharpe(best, 1250, 88, variance) == pytest.approx(0.9505, abs=5e-5)


def test_the_expected_maximum() -> None:
    """Bailey and others (2014), "Pseudo-Mathematics and Financial Charlatanism": 1.57 for 10 trials of variance 1. And
    by simulation."""
    assert expected_maximum_sharpe(10, 1.0) == pytest.approx(1.57, abs=0.005)
    drawn = np.random.default_rng(1).normal(0, 0.3, (20_000, 50)).max(axis=1).mean()
    assert expected_maximum_sharpe(50, 0.09) == pytest.approx(drawn, rel=0.02)
    assert expected_maximum_sharpe(1, 5.0) == expected_maximum_sharpe(9, 0.0) == 0


def test_returns_as_another_library_sees_them() -> None:
    """The numbers are those of skfolio 1.12.2 for the same returns and trials."""
    steps = np.arange(1, 251.0)
    returns = 0.002 + 0.02 * np.sin(steps * steps) + 0.01 * np.cos(3 * steps) ** 3
    trials = 0.01 * np.sin(np.arange(1, 31)) + 0.05
    found = moments(returns)
    assert probabilistic_sharpe(**found) == pytest.approx(0.9887886680645875, rel=1e-9)
    deflated = deflated_sharpe(**found, trials=30, variance=trials.var(ddof=1))
    assert deflated == pytest.approx(0.979508006164357, rel=1e-9)
    assert moments(np.zeros(5)) == {"sharpe": 0, "observations": 5, "skewness": 0, "kurtosis": 3}


def test_more_trials_and_worse_moments_deflate_more() -> None:
    values = [deflated_sharpe(0.15, 1000, trials, 0.002) for trials in (1, 2, 10, 100, 10_000)]
    assert values == sorted(values, reverse=True)
    assert probabilistic_sharpe(0.15, 1000, -2, 9) < probabilistic_sharpe(0.15, 1000)
    assert minimum_track_record(0.1, 0.1) == minimum_track_record(0.05, 0.1) == math.inf


def slow_overfitting(returns: np.ndarray, groups: int) -> tuple[float, float]:
    """The definition in loops: Bailey and others (2017), "The Probability of Backtest Overfitting"."""
    parts = np.array_split(returns, groups)
    worse, lost, choices = 0, 0, list(combinations(range(groups), groups // 2))
    for chosen in choices:
        first = np.concatenate([parts[group] for group in chosen])
        second = np.concatenate([parts[group] for group in range(groups) if group not in chosen])
        best = int(np.argmax([sharpe(trial) for trial in first.T]))
        after = [sharpe(trial) for trial in second.T]
        rank = sorted(after).index(after[best]) + 1
        relative = rank / (len(after) + 1)
        worse += math.log(relative / (1 - relative)) <= 0
        lost += after[best] < 0
    return worse / len(choices), lost / len(choices)


@pytest.mark.parametrize(("groups", "trials"), [(2, 2), (6, 3), (8, 20)])
def test_overfitting_against_loops(groups: int, trials: int) -> None:
    returns = np.random.default_rng(groups).normal(0.01, 1, (groups * 12, trials))
    found = backtest_overfitting(returns, groups)
    assert (found.probability, found.loss) == pytest.approx(slow_overfitting(returns, groups))


def test_overfitting_is_computed_in_parts_that_fit_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    returns = np.random.default_rng(1).normal(0.01, 1, (96, 20))
    whole = backtest_overfitting(returns, groups=8)
    monkeypatch.setattr(overfitting, "CHUNK", 20 * 3 * 8 * 9)  # 9 of the 70 choices
    parts = backtest_overfitting(returns, groups=8)
    assert parts.slope == pytest.approx(whole.slope) and parts.logits == pytest.approx(whole.logits)


def test_overfitting_of_trials_with_the_same_mean() -> None:
    """The example in the documentation of the R package pbo (100 trials, 2,400 rows, 8 groups, all with the same mean
    and standard deviation over all rows): the probability is 1, and every choice loses."""
    returns = np.random.default_rng(765).normal(size=(2400, 100))
    returns = (returns - returns.mean(axis=0)) / returns.std(axis=0, ddof=1) / math.sqrt(252)
    found = backtest_overfitting(returns, 8)
    assert found.probability == found.loss == 1 and found.slope < 0 and len(found.logits) == 70
    returns[:, 17] += 0.3 / math.sqrt(252)  # now one of them is good
    assert backtest_overfitting(returns, 8).probability == 0


def test_trials_without_skill_are_a_coin_toss() -> None:
    luck = [backtest_overfitting(np.random.default_rng(seed).normal(size=(400, 30)), 8) for seed in range(30)]
    assert np.mean([found.probability for found in luck]) == pytest.approx(0.5, abs=0.12)


def test_rows_that_do_not_divide_and_trials_that_never_trade() -> None:
    returns = np.random.default_rng(4).normal(size=(101, 5))
    returns[:, 2] = 0
    assert 0 <= backtest_overfitting(returns).probability <= 1
    assert backtest_overfitting(np.zeros((100, 5)), 4).probability == 1  # no trial is better than another


@pytest.mark.parametrize(
    "call",
    [
        lambda: backtest_overfitting(np.zeros((100, 1))),
        lambda: backtest_overfitting(np.zeros(100)),
        lambda: backtest_overfitting(np.zeros((100, 2)), groups=5),
        lambda: backtest_overfitting(np.zeros((100, 2)), groups=60),
        lambda: backtest_overfitting(np.zeros((100, 2)), groups=22),
        lambda: backtest_overfitting(np.full((100, 2), np.nan)),
        lambda: probabilistic_sharpe(0.1, 1),
        lambda: probabilistic_sharpe(2.0, 100, skewness=5),
        lambda: minimum_track_record(0.1, confidence=1.0),
        lambda: expected_maximum_sharpe(0, 1.0),
        lambda: expected_maximum_sharpe(5, -1.0),
        lambda: moments(np.array([0.1])),
    ],
)
def test_what_is_refused(call) -> None:
    with pytest.raises(OptionError):
        call()
