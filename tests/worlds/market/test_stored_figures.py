"""The numbers of the market worlds, bit for bit as they were when these figures were stored: results of older versions
stay comparable. The bars are made with integers, so that every machine has the same."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from rookery.data.dataset import Bars, Dataset
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.market.crypto import crypto
from rookery.worlds.market.forex import forex
from worlds.market.market_bars import START

RATES = {
    "fee": 0.0005, "half_spread": 0.0002, "slippage": 0.0001, "impact": 0.002, "swap_long": 0.03, "swap_short": 0.05,
    "funding": 0.00001, "borrow": 0.04, "margin_call": 0.3,
}  # fmt: skip
FIGURES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "crypto": (crypto, {"concentration_penalty": 0.3, "cash_reward": 0.1, "hold_limit": 7}, "61f59a2f94bbe709"),
    "crypto weights": (crypto, {"action_type": "weights", "few_positions_penalty": 0.2}, "f929f6d2026d0291"),
    "crypto finrl": (crypto, {"layout": "finrl", "lookback": 1}, "a175d03784e0b18e"),
    "forex": (forex, {"leverage": 3.0, "cooldown": 1}, "50170dfc44dfa2f6"),
    "forex continuous": (forex, {"leverage": 3.0, "cooldown": 0, "action_type": "continuous"}, "cf5d003a8334fb5a"),
}


def bars(symbols: tuple[str, ...], count: int = 500) -> Dataset:
    rows = np.arange(count, dtype=np.int64)
    made = []
    for number, symbol in enumerate(symbols):
        steps = (rows * rows * (7919 + number) + 104_729 * rows) % 257 - 128
        close = (100_000 + np.cumsum(steps)) / 1024
        opened = close + ((rows * 31 + number) % 61 - 30) / 1024
        extremes = np.maximum(opened, close) + 0.25, np.minimum(opened, close) - 0.25
        columns = dict(zip(("open", "high", "low", "close"), (opened, *extremes, close), strict=True))
        made.append(Bars(symbol, START + 3600 * (rows + 1), {**columns, "volume": np.ones(count)}))
    return Dataset(tuple(made), 3600, "24/7")


def fingerprint(make: Any, options: dict[str, Any]) -> str:
    """Of everything that the world says in an episode of 400 steps, whose actions are made with integers too."""
    symbols = ("EURUSD",) if make is forex else ("BTC/USD", "ETH/USD", "SOL/USD")
    usual = {"costs": RATES, "columns": "close", "lookback": 3, "window": 0, "time_limit": 0}
    world = make(data=bars(symbols), **{**usual, **options})
    count = world.action_space.shape[0] if world.action_space.shape else 1
    env, digest = KernelEnv(world, plain=True), hashlib.sha256()
    digest.update(env.reset(seed=1)[0].tobytes())
    for step in range(400):
        drawn = (np.arange(count) * 613 + step * step * 37) % 257
        action = int(drawn[0] % 3) if not world.action_space.shape else (drawn / 128 - 1).astype(np.float32)
        observation, reward, terminated, truncated, info = env.step(action)
        digest.update(observation.tobytes() + np.float64(reward).tobytes() + bytes([terminated, truncated]))
        digest.update(b"".join(np.asarray(info[name]).tobytes() for name in sorted(info)))
        if terminated or truncated:
            break
    return digest.hexdigest()[:16]


@pytest.mark.parametrize("case", FIGURES)
def test_the_numbers_are_those_that_were_stored(case: str) -> None:
    make, options, stored = FIGURES[case]
    assert fingerprint(make, options) == stored
