"""How sure the figures of an account are: confidence intervals, and the test against holding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rookery.training.backtest.joined_account import JoinedAccount

SAMPLES = 1000
LEVEL = 0.95
FEWEST = 10  # bars from which on there are intervals
AT_ONCE = 4_000_000  # numbers


def certainty(account: JoinedAccount, periods_per_year: float, seed: int = 0) -> dict[str, Any]:
    """Intervals of the agent's figures by a stationary block bootstrap, and the one-sided p-value of "the agent's
    Sharpe ratio is not above hold's"."""
    agent, hold = account.returns("agent"), account.returns("hold")
    block = max(2, round(len(agent) ** (1 / 3)))
    how = f"{LEVEL:.0%} by stationary block bootstrap: {SAMPLES:,} samples, blocks of {block} bars on average"
    if len(agent) < FEWEST or not agent.any():
        return {"how": f"none: too few bars that moved ({len(agent)})", "intervals": {}, "p_value": None}
    rng = np.random.default_rng(seed)
    draws: dict[str, list[np.ndarray]] = {name: [] for name in ("total_return", "sharpe", "max_drawdown", "difference")}
    at_once = max(1, AT_ONCE // len(agent))
    for first in range(0, SAMPLES, at_once):
        rows = _blocks(rng, min(at_once, SAMPLES - first), len(agent), block)
        mine, theirs = agent[rows], hold[rows]
        growth = np.cumprod(1 + mine, axis=1)
        peaks = np.maximum.accumulate(np.maximum(growth, 1.0), axis=1)
        draws["total_return"].append(growth[:, -1] - 1)
        draws["max_drawdown"].append((1 - growth / peaks).max(1))
        draws["sharpe"].append(_sharpes(mine) * math.sqrt(periods_per_year))
        draws["difference"].append(_sharpes(mine) - _sharpes(theirs))
    found = {name: np.concatenate(values) for name, values in draws.items()}
    differences = found.pop("difference")
    observed = float(_sharpes(agent[None])[0] - _sharpes(hold[None])[0])
    known = differences[np.isfinite(differences)]
    p_value = (1 + int((known - observed >= observed).sum())) / (1 + len(known)) if len(known) else None
    ends = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    intervals = {name: np.nanquantile(values, ends).tolist() for name, values in found.items()}
    return {"how": how, "intervals": intervals, "p_value": p_value if math.isfinite(observed) else None}


def _blocks(rng: np.random.Generator, samples: int, count: int, block: int) -> np.ndarray:
    starts = rng.random((samples, count)) < 1 / block
    starts[:, 0] = True
    at = np.maximum.accumulate(np.where(starts, np.arange(count), 0), axis=1)
    begun = np.take_along_axis(rng.integers(0, count, (samples, count)), at, 1)
    return (begun + np.arange(count) - at) % count


def _sharpes(returns: np.ndarray) -> np.ndarray:
    deviations = returns.std(axis=1, ddof=1)
    return np.where(deviations > 0, returns.mean(1) / np.where(deviations > 0, deviations, 1.0), np.nan)
