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
    "forex account": {"leverage": 3.0, "columns": "close", "time_limit": 200},
    "crypto": {"columns": "close", "time_limit": 200},
    "crypto weights": {"columns": "close", "action_type": "weights", "time_limit": 200},
    "crypto brackets": {"columns": "close", "action_type": "brackets", "widest_order": 0.005, "time_limit": 200},
    "perpetuals": {"columns": "close", "leverage": 20.0, "time_limit": 200},
    "perpetuals brackets": {
        "columns": "close", "leverage": 20.0, "action_type": "brackets", "widest_order": 0.005, "volume_share": 0.1,
    },
}  # fmt: skip


def bars_for(world: str) -> Dataset:
    kind = "forex" if world.startswith("forex") else "crypto"
    return synthesise(4, 3000, "1h" if kind == "forex" else "5m", seed=3, kind=kind)


def costs_for(world: str) -> dict[str, float]:
    if world == "forex account":  # which pays swaps only
        return {**COSTS, "funding": 0.0, "borrow": 0.0}
    own = {"margin_call": 0.005, "maker_fee": 0.0001, "liquidation_fee": 0.01} if world.startswith("perpetuals") else {}
    return {**COSTS, **own}


class Prices:
    """The prices of each row as the dataset has them, in the account's currency: (rows, assets)."""

    def __init__(self, data: Dataset, portfolio: bool) -> None:
        join = np.stack if portfolio else np.concatenate
        axis = {"axis": 1} if portfolio else {}
        self.open, self.close = (join([bars[name] for bars in data.bars], **axis) for name in ("open", "close"))
        from_dollars = np.array([currencies(bars.symbol)[0] == "USD" for bars in data.bars])
        if not portfolio:
            self.open, self.close = self.open[:, None], self.close[:, None]
            from_dollars = np.repeat(from_dollars, [len(bars) for bars in data.bars])[:, None]
        self.rate_open = np.where(from_dollars, 1.0 / self.open, 1.0)
        self.rate_close = np.where(from_dollars, 1.0 / self.close, 1.0)


class Ledger:
    """What every account should be worth: its initial balance, and gains of what it holds, less costs; and the most
    that what it traded can have cost."""

    def __init__(self, prices: Prices, num_envs: int, costs: dict[str, float]) -> None:
        self.prices, self.costs = prices, costs
        self.expected = np.full(num_envs, INITIAL)
        self.units = np.zeros((num_envs, prices.close.shape[1]))
        self.entry, self.floating = np.zeros_like(self.units), np.zeros_like(self.units)
        self.worst = 0.0  # difference to a ledger, as a part of the initial balance
        self.excess = -np.inf  # of a step's costs over the most that they can be
        self.steps = 0

    def check(self, infos: dict[str, Any]) -> None:
        """After a step. An env that was reset in it says nothing, and starts over."""
        told = infos["_equity"] if infos else np.zeros(len(self.expected), bool)
        self.expected[~told], self.units[~told], self.floating[~told] = INITIAL, 0.0, 0.0
        if not infos:
            return
        rows, equity, units = infos["row"][told], infos["equity"][told], self._units_of(infos)[told]
        prices, held = self.prices, self.units[told]
        traded = infos["turnover"][told] * np.maximum(self.expected[told], 1e-9)
        if "gains" in infos:
            gains = self._converted_gains(infos, told)
        elif "spent" in infos:  # fills at other prices than the open
            gains = units * prices.close[rows] - held * prices.close[rows - 1] - infos["spent"][told]
            gains[:, 0] += infos["shortfall"][told]
        else:
            gains = held * (prices.open[rows] - prices.close[rows - 1]) * prices.rate_open[rows]
            gains += units * (prices.close[rows] - prices.open[rows]) * prices.rate_close[rows]
            traded = (np.abs(units - held) * prices.open[rows] * prices.rate_open[rows]).sum(axis=1)
        self._bound_costs(traded, infos, told)
        self.expected[told] += gains.sum(axis=1) - sum(infos[kind][told] for kind in KINDS_OF_COSTS)
        self.units[told] = units
        value = (units * prices.close[rows] * prices.rate_close[rows]).sum(axis=1)
        for figure in (self.expected[told], infos["cash"][told] + value):
            self.worst = max(self.worst, float(np.abs(equity - figure).max(initial=0.0)) / INITIAL)
        self.steps += int(told.sum())

    def _converted_gains(self, infos: dict[str, Any], told: np.ndarray) -> np.ndarray:
        """Of positions whose whole gain is converted at the rate of now; as the world says where a stop-out closed
        some, at prices that it does not tell."""
        rows, prices, units, held = infos["row"][told], self.prices, infos["positions"][told], self.units[told]
        entry, opened = self.entry[told], prices.open[rows]
        change = units - held
        closed = np.where(held * change < 0, np.sign(held) * np.minimum(np.abs(change), np.abs(held)), 0.0)
        realised = closed * (opened - entry) * prices.rate_open[rows]
        kept, added = held - closed, change + closed
        entry = np.where(units != 0, (kept * entry + added * opened) / np.where(units != 0, units, 1.0), 0.0)
        floating = units * (prices.close[rows] - entry) * prices.rate_close[rows]
        gains = realised + floating - self.floating[told]
        self.entry[told], self.floating[told] = entry, floating
        return np.where(infos["stop_outs"][told][:, None] > 0, infos["gains"][told], gains)

    def _bound_costs(self, traded: np.ndarray, infos: dict[str, Any], told: np.ndarray) -> None:
        rates = [self.costs.get(name, 0.0) for name in ("fee", "half_spread", "slippage", "liquidation_fee")]
        most = traded * (sum(rates) + self.costs["impact"] * traded / 1e6) * (1 + 1e-9)
        paid = sum(infos[kind][told] for kind in KINDS_OF_COSTS[:3])
        self.excess = max(self.excess, float((paid - most).max(initial=-np.inf)))

    @staticmethod
    def _units_of(infos: dict[str, Any]) -> np.ndarray:
        return infos["positions"] if "positions" in infos else infos["position"][:, None]


def balanced(world: str, steps: int, num_envs: int = 256, broken: Any = None) -> Ledger:
    """The ledger after so many steps of all envs together. `broken` may change what the world said."""
    data, portfolio, costs = bars_for(world), world not in ("forex", "forex continuous"), costs_for(world)
    options = {"data": data, "costs": costs, "initial_balance": INITIAL, "lookback": 2, **OPTIONS[world]}
    name = f"rookery/{'ForexAccount' if world == 'forex account' else world.split()[0].capitalize()}-v0"
    envs = rookery.make_vec(name, num_envs, env_kwargs=options)
    envs.reset(seed=1)
    space, rng = envs.single_action_space, np.random.default_rng(1)
    ledger = Ledger(Prices(data, portfolio), num_envs, costs)
    while ledger.steps < steps:
        shape = (num_envs, *space.shape)
        actions = rng.integers(0, 3, shape) if space.shape == () else rng.uniform(-1, 1, shape).astype(np.float32)
        infos = envs.step(actions)[4]
        ledger.check(broken(infos) if broken and infos else infos)
    envs.close()
    return ledger
