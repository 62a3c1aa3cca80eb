"""Who knows the next return gets rich, and nobody earns anything on a random walk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from worlds.market.learning import oracle_bars, p_value_of_gains, student_tail, trained, walk_bars

LEAST = {"forex": 0.1, "crypto": 1.0}  # a few weeks of hours; a year and a half of days


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("world", LEAST)
def test_with_the_next_return_in_the_observation_ppo_gets_rich(world: str, tmp_path: Path) -> None:
    """If it did not, orders would not earn the returns that follow them, or PPO would not learn."""
    report = trained(world, oracle_bars(world), 60_000, tmp_path, columns="oracle")
    assert report["agent"]["total_return"] > LEAST[world] + report["hold"]["total_return"]
    assert report["certainty"]["p_value"] < 0.01


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("world", LEAST)
def test_on_a_random_walk_nobody_beats_the_costs(world: str, tmp_path: Path) -> None:
    """Few seeds; `benchmarks/markets.py --only nothing` takes twenty."""
    gains = []
    for seed in (1, 2, 3, 4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        report = trained(world, walk_bars(world, seed=seed), 30_000, folder, seed, columns="close")
        gains.append(report["agent"]["total_return"])
    assert p_value_of_gains(gains) >= 0.01


def test_the_test_of_gains_notices_a_mean_above_zero() -> None:
    """An edge of one standard deviation a seed is noticed, none and a loss are not."""
    noise = np.random.default_rng(1).normal(size=20)
    assert p_value_of_gains(list(noise - noise.mean() + 1.0)) < 0.01
    assert p_value_of_gains(list(noise - noise.mean())) == pytest.approx(0.5)
    assert p_value_of_gains([0.0, 0.0]) == 1.0
    assert student_tail(2.539, 19) == pytest.approx(0.01, abs=1e-4)  # as tables have it
    assert student_tail(-1.729, 19) == pytest.approx(0.95, abs=1e-4)
