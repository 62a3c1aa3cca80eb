"""Whether money appears or vanishes: accounts of many envs, checked after every step."""

from __future__ import annotations

from typing import Any

import numpy as np

import rookery
from rookery.data.dataset import Dataset
from rookery.data.synth import synthesise
from rookery.worlds.market.market_tables import currencies

INITIAL = 100_000.0
KINDS_OF_COSTS = ("fees", "spread_cost", "impact_cost", "funding_cost")
COSTS = {
    "fee": 0.0005, "half_spread": 0.0002, "slippage": 0.0001, "impact": 0.002, "swap_long": 0.03, "swap_short": 0.05,
    "funding": 0.00001, "borrow": 0.04, "margin_call": 0.3,
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "forex": {"leverage": 3.0, "cooldown": 1, "columns": "close", "time_limit": 200},
    "forex continuous": {"leverage": 3.0, "cooldown": 0, "columns": "close", "action_type": "continuous"},
    "crypto": {"columns": "close", "time_limit": 200},
    "crypto weights": {"columns": "close", "action_type": "weights", "time_limit": 200},
}


def bars_for(world: str) -> Dataset:
    kind = world.split()[0]
    return synthesise(4, 3000, "1h" if kind == "forex" else "5m", seed=3, kind=kind)


class Prices:
    """The prices of each row as the dataset has them, in the account's currency: (rows, assets)."""

    def __init__(self, data: Dataset, portfolio: bool) -> None:
        join = np.stack if portfolio else np.concatenate
        axis = {"axis": 1} if portfolio else {}
        self.open, self.close = (join([bars[name] for bars in data.bars], **axis) for name in ("open", "close"))
        from_dollars = [not portfolio and currencies(bars.symbol)[0] == "USD" for bars in data.bars]
        in_dollars = np.repeat(from_dollars, [len(bars) for bars in data.bars])
        ones = np.ones_like(self.close)
        self.rate_open, self.rate_close = ones, ones
        if not portfolio:
            self.open, self.close = self.open[:, None], self.close[:, None]
            self.rate_open = np.where(in_dollars, 1.0 / self.open[:, 0], 1.0)[:, None]
            self.rate_close = np.where(in_dollars, 1.0 / self.close[:, 0], 1.0)[:, None]


class Ledger:
    """What every account should be worth: its initial balance, and gains of what it holds, less costs."""

    def __init__(self, prices: Prices, num_envs: int) -> None:
        self.prices = prices
        self.expected = np.full(num_envs, INITIAL)
        self.units = np.zeros((num_envs, prices.close.shape[1]))
        self.worst = 0.0
        self.steps = 0

    def check(self, infos: dict[str, Any]) -> None:
        """After a step. An env that was reset in it says nothing, and starts over."""
        told = infos["_equity"] if infos else np.zeros(len(self.expected), bool)
        self.expected[~told], self.units[~told] = INITIAL, 0.0
        if not infos:
            return
        rows, equity, units = infos["row"][told], infos["equity"][told], self._units_of(infos)[told]
        prices, held = self.prices, self.units[told]
        gains = held * (prices.open[rows] - prices.close[rows - 1]) * prices.rate_open[rows]
        gains += units * (prices.close[rows] - prices.open[rows]) * prices.rate_close[rows]
        self.expected[told] += gains.sum(axis=1) - sum(infos[kind][told] for kind in KINDS_OF_COSTS)
        self.units[told] = units
        value = (units * prices.close[rows] * prices.rate_close[rows]).sum(axis=1)
        for figure in (self.expected[told], infos["cash"][told] + value):
            self.worst = max(self.worst, float(np.abs(equity - figure).max(initial=0.0)) / INITIAL)
        self.steps += int(told.sum())

    @staticmethod
    def _units_of(infos: dict[str, Any]) -> np.ndarray:
        return infos["positions"] if "positions" in infos else infos["position"][:, None]


def worst_imbalance(world: str, steps: int, num_envs: int = 256, broken: Any = None) -> tuple[float, int]:
    """The largest difference between an account and its ledger, as a part of the initial balance, over so many steps of
    all envs together; and how many steps were checked. `broken` may change what the world said."""
    data, portfolio = bars_for(world), world.startswith("crypto")
    options = {"data": data, "costs": COSTS, "initial_balance": INITIAL, "lookback": 2, **OPTIONS[world]}
    name = "rookery/Crypto-v0" if portfolio else "rookery/Forex-v0"
    envs = rookery.make_vec(name, num_envs, env_kwargs=options)
    envs.reset(seed=1)
    space, rng, ledger = envs.single_action_space, np.random.default_rng(1), Ledger(Prices(data, portfolio), num_envs)
    while ledger.steps < steps:
        shape = (num_envs, *space.shape)
        actions = rng.integers(0, 3, shape) if space.shape == () else rng.uniform(-1, 1, shape).astype(np.float32)
        infos = envs.step(actions)[4]
        ledger.check(broken(infos) if broken and infos else infos)
    envs.close()
    return ledger.worst, ledger.steps
