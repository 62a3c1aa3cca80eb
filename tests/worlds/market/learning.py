"""PPO on synthetic markets: one that shows the next return, one that is a random walk, one with a planted signal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import rookery
from rookery.data.dataset import Bars, Dataset
from rookery.data.storage import write
from rookery.data.synth import synthesise

# Bars in which a price moves by more than a trade costs: who knows the next return can earn it.
TIMEFRAMES = {"forex": "1h", "crypto": "1d"}
# One column, and no limits on how often an agent may trade.
SIMPLE: dict[str, dict[str, Any]] = {
    "forex": {"lookback": 1, "cooldown": 0, "turnover_cap": 1e9},
    "crypto": {"lookback": 1, "action_type": "weights", "hold_limit": 0},
}
PPO = {"rollout_length": 64, "normalise_observations": True}


def with_next_return(data: Dataset) -> Dataset:
    """With a column that no honest data can have: the return of the next bar, in standard deviations."""
    return replace(data, bars=tuple(map(_leaking, data.bars)))


def _leaking(bars: Bars) -> Bars:
    returns = np.diff(np.log(bars["close"]))
    return bars.with_columns({"oracle": np.append(returns / returns.std(), 0.0)})


def oracle_bars(world: str, bars: int = 4000, seed: int = 1) -> Dataset:
    return with_next_return(synthesise(1 if world == "forex" else 3, bars, TIMEFRAMES[world], seed=seed, kind=world))


def walk_bars(world: str, bars: int = 4000, seed: int = 1) -> Dataset:
    symbols = ("EURUSD",) if world == "forex" else ("BTC/USD", "ETH/USD", "SOL/USD")
    return synthesise(bars=bars, timeframe=TIMEFRAMES[world], seed=seed, kind="walk", symbols=symbols)


def trained(world: str, data: Dataset, steps: int, folder: Path, seed: int = 1, **options: Any) -> Any:
    """The report of an agent on the last part of the bars, which it has not seen."""
    file = folder / "bars.parquet"
    write(data, file)
    options = {"data": str(file), **SIMPLE[world], **options}
    result = rookery.train(
        world, steps=steps, seed=seed, num_envs=32, learning_rate=1e-3, ppo=PPO, world_options=options,
        evaluation={"every": 10 * steps}, monitor={"system": False}, runs_dir=folder, name=f"{world}-{seed}",
    )  # fmt: skip
    return rookery.backtest(result.path, checkpoint="latest")


def p_value_of_gains(gains: Sequence[float]) -> float:
    """How likely a mean as large as this is if the true mean is zero or less: one-sided t-test."""
    mean, error = float(np.mean(gains)), float(np.std(gains, ddof=1)) / math.sqrt(len(gains))
    if error == 0.0:  # nobody traded
        return 1.0 if mean <= 0.0 else 0.0
    return student_tail(mean / error, len(gains) - 1)


def student_tail(t: float, degrees: int) -> float:
    """The probability of a larger t, by integrating its density: exact to 1e-6, without SciPy."""
    angles = np.linspace(math.atan(t / math.sqrt(degrees)), math.pi / 2, 20_001)
    density = np.cos(angles) ** (degrees - 1)
    scale = math.gamma((degrees + 1) / 2) / (math.gamma(degrees / 2) * math.sqrt(math.pi))
    return float(np.trapezoid(density, angles) * scale)
