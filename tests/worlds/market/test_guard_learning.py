"""Who knows the next return gets rich, and nobody earns anything on a random walk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.data.dataset import Dataset
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.market.crypto import crypto
from rookery.worlds.market.forex import forex
from worlds.market.learning import SIMPLE, oracle_bars, p_value_of_gains, student_tail, trained, walk_bars

WORLDS: dict[str, Any] = {"forex": forex, "crypto": crypto}
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


def lagged(data: Dataset) -> Dataset:
    """The column that was the next return, one bar late: the return that has just been seen."""
    return replace(data, bars=tuple(bars.with_columns({"oracle": np.roll(bars["oracle"], 1)}) for bars in data.bars))


def gain_of_a_rule(world: str, data: Dataset) -> float:
    """The growth of an account that holds what `oracle` says will rise, over 60 bars, without costs."""
    options = {**SIMPLE[world], "columns": "oracle", "window": 0, "time_limit": 0, "costs": "none"}
    env = KernelEnv(WORLDS[world](data=data, **options), plain=True)
    observation, _ = env.reset(seed=1)
    for _ in range(60):
        if world == "forex":  # the column, then the position
            action: Any = 2 if observation[0] > 0.0 else 0
        else:  # cash, three weights, then a column for each asset
            action = np.where(observation[4:] > 0.0, 1.0, -1.0).astype(np.float32)
        observation, _, _, _, info = env.step(action)
    return float(info["equity"]) / 100_000.0 - 1.0


def gain_of_foresight(world: str, data: Dataset) -> float:
    """What can be earned in the first 60 bars by who knows each of them before, from its open to its close."""
    returns = np.stack([bars["close"][1:61] / bars["open"][1:61] - 1.0 for bars in data.bars], axis=1)
    if world == "forex":
        return float(np.prod(1.0 + np.abs(returns)) - 1.0)
    rising = np.maximum(returns, 0.0).sum(axis=1) / np.maximum((returns > 0.0).sum(axis=1), 1)
    return float(np.prod(1.0 + rising) - 1.0)


@pytest.mark.parametrize("world", LEAST)
def test_a_rule_that_reads_the_next_return_earns_it_and_one_bar_late_it_does_not(
    world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rookery.data.shared_tables.cache_folder", lambda name: None)
    data = oracle_bars(world, bars=100)
    gain = gain_of_a_rule(world, data)
    assert gain == pytest.approx(gain_of_foresight(world, data), rel=0.1)
    assert gain_of_a_rule(world, lagged(data)) < gain / 2
