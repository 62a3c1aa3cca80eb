"""Recorded windows for the tests of reports, made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rookery.learners.agent import Agent
from rookery.learners.registry import make_policy, option_classes
from rookery.training.backtest.records import COSTS, MarketFacts, WindowRecord

START = 1_704_067_200  # 2024-01-01 00:00 UTC
HOUR = 3_600
DAY = 86_400


def market(**changes: Any) -> MarketFacts:
    facts: dict[str, Any] = {
        "timeframe": HOUR,
        "calendar": "24/7",
        "periods_per_year": 8766.0,
        "annualised_with": "8,766 bars of 1h a year: 365.25 days of 24 hours",
        "costs_name": "own",
        "costs_rates": ("fee 0.1 % of each trade",),
        "source": "bars.parquet",
    }
    return MarketFacts(**{**facts, **changes})


def window(
    closes: Any,
    positions: Any = None,
    *,
    symbols: tuple[str, ...] | None = None,
    fee: float = 0.0,
    cash: float = 1000.0,
    start: int = START,
    step: int = HOUR,
    opens: Any = None,
    **changes: Any,
) -> WindowRecord:
    """An account that holds these units after each step, filled at the open, with a fee."""
    closes = np.asarray(closes, float)
    closes = closes[:, None] if closes.ndim == 1 else closes
    opens = np.vstack([closes[:1], closes[:-1]]) if opens is None else np.asarray(opens, float).reshape(closes.shape)
    steps, count = len(closes) - 1, closes.shape[1]
    held = np.zeros((steps, count)) if positions is None else np.asarray(positions, float).reshape(steps, count)
    before = np.vstack([np.zeros((1, count)), held[:-1]])
    traded = (np.abs(held - before) * opens[1:]).sum(1)
    fees = fee * traded
    money = cash - np.cumsum(((held - before) * opens[1:]).sum(1) + fees)
    equity = np.concatenate([[cash], money + (held * closes[1:]).sum(1)])
    values: dict[str, Any] = {
        "symbols": symbols or tuple("ABCDEFG"[:count]),
        "times": start + step * np.arange(steps + 1),
        "equity": equity,
        "opens": opens,
        "closes": closes,
        "positions": held,
        "cash": money,
        "exposure": (np.abs(held) * closes[1:]).sum(1) / np.where(equity[1:] > 0, equity[1:], np.inf),
        "turnover": traded / np.where(equity[:-1] > 0, equity[:-1], np.inf),
        "trades": (held != before).sum(1).astype(float),
        "rewards": np.diff(equity),
        "costs": {**{kind: np.zeros(steps) for kind in COSTS}, "fees": fees},
        "entry_cost": np.full(count, fee),
        "carry": np.zeros((steps, count)),
    }
    return WindowRecord(**{**values, **changes})


def random_window(steps: int = 500, assets: int = 1, seed: int = 1, drift: float = 0.0, **changes: Any) -> WindowRecord:
    """A random walk, and an agent that holds random parts of it."""
    rng = np.random.default_rng(seed)
    closes = 100 * np.exp(np.cumsum(0.01 * rng.standard_normal((steps + 1, assets)) + drift, axis=0))
    held = rng.integers(0, 3, (steps, assets)) / assets
    return window(closes, held, fee=0.0005, **changes)


def agent_for(world: Any, seed: int = 0, **options: Any) -> Agent:
    """An untrained agent for the spaces of a world, whose actions change with the observations."""
    torch.manual_seed(seed)
    chosen = option_classes()["ppo"](hidden=[16], **options)
    policy = make_policy("ppo", world.observation_space, world.action_space, chosen)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(8.0)
    return Agent(policy.eval(), world.observation_space, world.action_space, torch.device("cpu"))
