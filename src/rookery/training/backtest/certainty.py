"""How sure the figures of an account are: confidence intervals, and the test against holding."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.performance.bootstrap import LEAST, ConfidenceInterval, bootstrap_intervals
from rookery.performance.drawdown import drawdowns
from rookery.performance.ratios import hit_rate, sharpe, sortino, total_return
from rookery.performance.sharpe_difference import sharpe_difference
from rookery.training.backtest.joined_account import JoinedAccount

SAMPLES, FEWEST_SAMPLES = 1000, 200  # of intervals
MOST_VALUES = 50_000_000  # in all samples: a long history takes fewer of them, and needs fewer
TEST_SAMPLES = 4999
LEVEL = 0.95
UNBOUNDED = 1e9  # a ratio from here on has no number: a sample without losses


def certainty(account: JoinedAccount, periods_per_year: float, seed: int = 0) -> dict[str, Any]:
    """Intervals of the agent's figures by a stationary block bootstrap, and the one-sided p-value of a Sharpe ratio
    above hold's: how likely such a difference is if the agent is not better."""
    agent, hold = account.returns("agent"), account.returns("hold")
    if len(agent) < LEAST or agent.std() == 0:
        why = f"there are {len(agent)} bars" if len(agent) < LEAST else "the account never changed"
        return {"how": f"none: {why}", "level": LEVEL, "intervals": {}, "p_value": None, "test": "none"}
    statistics = {
        "total_return": total_return,
        "sharpe": lambda returns: sharpe(returns, periods_per_year),
        "sortino": lambda returns: np.clip(sortino(returns, periods_per_year), -UNBOUNDED, UNBOUNDED),
        "max_drawdown": _deepest,
        "hit_rate": hit_rate,
    }
    samples = max(FEWEST_SAMPLES, min(SAMPLES, MOST_VALUES // len(agent)))
    found = bootstrap_intervals(agent, statistics, LEVEL, samples, seed=seed)
    test = sharpe_difference(agent, hold, TEST_SAMPLES, seed=seed, level=LEVEL)
    drawn = next(iter(found.values()))
    return {
        "how": f"{100 * LEVEL:.0f} %, stationary bootstrap: {samples:,} samples in blocks of {drawn.block:.3g} bars on "
        "average",
        "level": LEVEL,
        "intervals": {name: _ends(interval) for name, interval in found.items()},
        "p_value": test.p_value,
        "test": f"one-sided, studentised difference of Sharpe ratios: {TEST_SAMPLES:,} samples in blocks of "
        f"{test.block} bars",
    }


def _ends(interval: ConfidenceInterval) -> list[float | None]:
    return [end if abs(end) < UNBOUNDED else None for end in (interval.low, interval.high)]


def _deepest(returns: np.ndarray) -> np.ndarray:
    """The largest drawdown of each series."""
    growth = np.cumprod(1 + returns, axis=-1)
    begun = np.concatenate([np.ones((*growth.shape[:-1], 1)), growth], axis=-1)
    return drawdowns(begun).max(axis=-1)
