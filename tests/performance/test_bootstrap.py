"""Intervals and the test of two Sharpe ratios: seeded, and right as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.errors import OptionError
from rookery.performance.bootstrap import (
    block_length,
    bootstrap_interval,
    bootstrap_intervals,
    sharpe_difference,
    stationary_rows,
)
from rookery.performance.ratios import drawdowns, sharpe, sortino, total_return


def series(seed: int, count: int, memory: float = 0.0) -> np.ndarray:
    """Fat tails, and a value that remembers the value before."""
    noise = np.random.default_rng(seed).standard_t(5, count + 50)
    return np.convolve(noise, memory ** np.arange(50.0), "valid")[:count]


def test_the_length_of_blocks() -> None:
    """Of an AR(1) it is (2 a / (1 - a^2))^(2/3) n^(1/3): Politis and White (2004), with the correction of 2009."""
    for memory in (0.3, 0.6):
        expected = (2 * memory / (1 - memory**2)) ** (2 / 3) * 20_000 ** (1 / 3)
        found = np.mean([block_length(series(seed, 20_000, memory)) for seed in range(3)])
        assert found == pytest.approx(expected, rel=0.25)
        assert block_length(series(1, 20_000, memory), circular=True) == pytest.approx(
            block_length(series(1, 20_000, memory)) * 1.5 ** (1 / 3)
        )
    assert block_length(series(1, 20_000)) < 5
    assert block_length(np.ones(100)) == 1
    assert 10 < block_length(np.arange(100.0)) <= 30  # no longer than three roots


def test_resampled_rows() -> None:
    """Each row follows the row before it, in a circle, except where a block begins."""
    rows = np.concatenate(list(stationary_rows(1000, 20, samples=2500, seed=3)))
    assert rows.shape == (2500, 1000) and rows.min() == 0 and rows.max() == 999
    followed = ((rows[:, 1:] - rows[:, :-1]) % 1000 == 1).mean()
    assert followed == pytest.approx(1 - 1 / 20 + 1 / 20_000, abs=0.001)
    np.testing.assert_allclose(np.bincount(rows.ravel(), minlength=1000) / 2500, 1, atol=0.35)
    assert (rows == np.concatenate(list(stationary_rows(1000, 20, samples=2500, seed=3)))).all()
    with pytest.raises(OptionError, match="block=0"):
        next(stationary_rows(10, 0, 1))


def test_an_interval_is_right_as_often_as_it_says() -> None:
    """Series that remember: 90 % intervals by blocks contain the true mean, 0, and intervals without blocks do not."""
    by_blocks = [bootstrap_interval(series(seed, 300, 0.5), mean, 0.9, 200, seed=seed) for seed in range(100)]
    singly = [bootstrap_interval(series(seed, 300, 0.5), mean, 0.9, 200, block=1, seed=seed) for seed in range(100)]
    assert np.mean([found.low <= 0 <= found.high for found in by_blocks]) > 0.75
    assert np.mean([found.low <= 0 <= found.high for found in singly]) < 0.75


def mean(returns: np.ndarray) -> np.ndarray:
    return returns.mean(axis=-1)


def deepest(returns: np.ndarray) -> np.ndarray:
    return drawdowns(np.cumprod(1 + returns, axis=-1)).max(axis=-1)


def test_intervals_of_any_statistic() -> None:
    returns = 0.01 * series(5, 400) + 0.001
    statistics = {"sharpe": sharpe, "total": total_return, "drawdown": deepest}
    found = bootstrap_intervals(returns, statistics, samples=300, seed=1)
    for name, statistic in statistics.items():
        assert found[name].low < found[name].value < found[name].high
        assert found[name].level == 0.95 and found[name].samples == 300
        assert found[name] == bootstrap_interval(returns, statistic, samples=300, seed=1)
        assert found[name] != bootstrap_interval(returns, statistic, samples=300, seed=2)
    narrow = bootstrap_interval(returns, sharpe, level=0.5, samples=300, seed=1)
    assert found["sharpe"].low < narrow.low < narrow.high < found["sharpe"].high


def test_an_interval_may_be_infinite() -> None:
    """Without a loss, a Sortino ratio is."""
    found = bootstrap_interval(np.abs(series(1, 100)), sortino, samples=50)
    assert found.value == found.low == found.high == np.inf


def test_a_better_series_is_found_and_an_equal_one_is_not() -> None:
    """Much of the noise is shared, so that the test must compare pair by pair."""
    market = series(1, 800)
    better = market + 0.2 + 0.2 * series(2, 800)
    found = sharpe_difference(better, market, samples=1999)
    assert found.p_value < 0.001 and 0 < found.low < found.difference < found.high
    assert found.difference == pytest.approx(sharpe(better) - sharpe(market))
    assert sharpe_difference(market, better, samples=199).p_value > 0.99
    scaled = sharpe_difference(0.001 * better, 5 * market, samples=1999)
    assert scaled.p_value == found.p_value and scaled.difference == pytest.approx(found.difference)


def test_series_that_do_not_vary() -> None:
    """An agent that never trades, or that does as the market does, is not better."""
    market = series(1, 500)
    assert sharpe_difference(market, market).p_value == 1
    assert sharpe_difference(np.zeros(500), np.zeros(500), samples=999).p_value == 1
    assert sharpe_difference(np.zeros(500), market - 0.3, samples=999).p_value < 0.01
    assert sharpe_difference(market + 0.3, np.zeros(500), samples=999).p_value < 0.01
    rare = np.zeros(500)
    rare[40] = 1.0  # one lucky trade proves nothing
    assert sharpe_difference(rare, np.zeros(500), samples=999).p_value > 0.05


def p_values(count: int, memory: float) -> np.ndarray:
    """Of two series that are equally good."""
    found = []
    for seed in range(count):
        shared = series(3 * seed, 300, memory)
        one, two = (shared + series(3 * seed + each, 300, memory) + 0.1 for each in (1, 2))
        found.append(sharpe_difference(one, two, samples=199, seed=seed).p_value)
    return np.array(found)


def test_p_values_are_what_they_say() -> None:
    found = p_values(100, 0.3)
    assert np.mean(found < 0.05) < 0.13 and np.mean(found > 0.95) < 0.13
    assert np.mean(found) == pytest.approx(0.5, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [0.0, 0.3])
def test_a_thousand_p_values(memory: float) -> None:
    found = p_values(1000, memory)
    assert np.mean(found < 0.05) < 0.075 and np.mean(found > 0.95) < 0.075
    assert np.mean(found < 0.01) < 0.025
    assert np.mean(found) == pytest.approx(0.5, abs=0.03)


def test_long_series_have_at_most_two_thousand_blocks() -> None:
    found = sharpe_difference(series(1, 20_000), series(2, 20_000), samples=20)
    assert found.block == 10


@pytest.mark.parametrize(
    "call",
    [
        lambda: bootstrap_interval(np.zeros(10), sharpe),
        lambda: bootstrap_interval(np.full(100, np.nan), sharpe),
        lambda: bootstrap_interval(series(1, 100), sharpe, level=1.0),
        lambda: sharpe_difference(np.zeros(10), np.zeros(10)),
        lambda: sharpe_difference(np.zeros(100), np.zeros(99)),
        lambda: sharpe_difference(series(1, 100), series(2, 100), block=80),
        lambda: sharpe_difference(series(1, 100), series(2, 100), samples=0),
    ],
)
def test_what_is_refused(call) -> None:
    with pytest.raises(OptionError):
        call()
