"""Whether anything that a market world says depends on bars that were not complete yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from data.future_guard import scramble_after
from rookery.data.dataset import COST_COLUMNS, Dataset
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.market.crypto import crypto
from rookery.worlds.market.forex import forex
from rookery.worlds.market.forex_account import forex_account
from rookery.worlds.market.perpetuals import perpetuals
from worlds.market.market_bars import random_bars

Make = Callable[[Dataset], Any]  # from bars to a world
Moment = tuple[int, dict[str, bytes]]  # a time, and everything that the world said then, bit for bit
PAIRS = ("EURUSD", "USDJPY", "EURGBP", "GBPUSD")  # in dollars, in yen, in pounds that another pair makes dollars
COINS = ("BTC/USD", "ETH/USD", "SOL/USD")
COSTS = {"preset": "ecn-forex", "borrow": 0.04, "margin_call": 0.3}
FROM_DATA = {"preset": "none", "fee": 0.001, "impact": 0.01, "half_spread": "data", "funding": "data"}
COMMON: dict[str, Any] = {"lookback": 3, "time_limit": 30, "columns": "close,volume,noise,rsi_5,ema_5,macd_3_5_2"}
LIMITS: dict[str, Any] = {"costs": COSTS, "daily_drawdown": 0.01, "turnover_cap": 3.0, "cooldown": 2, "leverage": 3.0}
TABLE = {"swap_unit": "percent", **{pair: {"swap_long": -3.0, "swap_short": 1.0} for pair in PAIRS}}
ACCOUNT = {"costs": {**COSTS, "borrow": 0.0, "margin_call": 0.04}, "leverage": 20.0}
BRACKETS = {"action_type": "brackets", "inside_bar": "low-first", "volume_share": 1e4}
CASES: dict[str, tuple[Callable[..., Any], tuple[str, ...], dict[str, Any]]] = {
    "forex": (forex, PAIRS, LIMITS),
    "forex continuous, power": (forex, PAIRS, {**LIMITS, "action_type": "continuous", "scaling": "power"}),
    "forex, costs from the data": (forex, PAIRS, {"costs": FROM_DATA, "cooldown": 0}),
    "forex, bars that are joined": (forex, PAIRS, {"costs": COSTS, "timeframe": "2h", "cooldown": 0}),
    "forex with a broker's table": (forex, PAIRS, {**LIMITS, "broker": TABLE}),
    "forex account": (forex_account, PAIRS, ACCOUNT),
    "forex account, broker's table, power": (forex_account, PAIRS, {**ACCOUNT, "broker": TABLE, "scaling": "power"}),
    "forex account, rates through other pairs": (
        forex_account,
        PAIRS,
        {**ACCOUNT, "symbols": "EURUSD,EURGBP", "timeframe": "2h"},
    ),
    "crypto orders": (crypto, COINS, {"hold_limit": 5, "forced_sale": 0.5}),
    "crypto orders, costs from the data": (crypto, COINS, {"costs": FROM_DATA, "cash_reward": 0.1}),
    "crypto weights, power": (crypto, COINS, {"action_type": "weights", "scaling": "power", "costs": FROM_DATA}),
    "crypto, bars that are joined": (crypto, COINS, {"timeframe": "2h"}),
    "crypto brackets": (crypto, COINS, {"action_type": "brackets", "volume_share": 1e4}),
    "perpetuals": (perpetuals, COINS, {"leverage": 20.0, "hold_limit": 5}),
    "perpetuals, costs from the data": (perpetuals, COINS, {"costs": {**FROM_DATA, "margin_call": 0.01}}),
    "perpetuals brackets": (perpetuals, COINS, {"action_type": "brackets", "leverage": 9.0, "timeframe": "2h"}),
    "perpetuals brackets, power": (perpetuals, COINS, {**BRACKETS, "scaling": "power"}),
}


def bars(symbols: tuple[str, ...], count: int = 110) -> Dataset:
    """Symbols that begin at different times, with costs that change from bar to bar."""
    data = random_bars(symbols, count=count)
    rng = np.random.default_rng(7)
    parts = []
    for number, each in enumerate(data.bars):
        costs = {"spread": rng.uniform(0, 0.002, count), "funding": rng.normal(0, 0.0005, count)}
        parts.append(each.with_columns(costs).rows(slice(3 * (len(symbols) - 1 - number), None)))
    return replace(data, bars=tuple(parts))


def scramble_after_time(dataset: Dataset, time: int, seed: int) -> Dataset:
    """Other bars of every symbol after a time; symbols may begin and end at different times. Costs stay as small as
    costs are: others are refused."""
    parts = []
    for number, bars in enumerate(dataset.bars):
        row = int(np.searchsorted(bars.times, time, side="right")) - 1
        other = scramble_after(replace(dataset, bars=(bars,)), row, seed + number).bars[0]
        size = np.where(np.arange(len(bars)) > row, 0.001, 1.0)
        parts.append(other.with_columns({name: other[name] * size for name in COST_COLUMNS if name in other.columns}))
    return replace(dataset, bars=tuple(parts))


class FutureGuard:
    """Plays the same actions over bars and over other bars after a time. One env is used for all of them: making one
    takes longer than an episode."""

    def __init__(self, make: Make, data: Dataset) -> None:
        self.make, self.data = make, data
        world = make(data)
        self.times = world.market.times
        self._env = KernelEnv(world, plain=True)

    def played(self, data: Dataset, seed: int, steps: int = 1000) -> list[Moment]:
        """What the world says from its reset on, with random actions."""
        env = self._env
        env.set_tables(**self.make(data).tables)
        env.action_space.seed(seed)
        observation, info = env.reset(seed=seed)
        moments = [(self._now(), _bits({"observation": observation, **info}))]
        for _ in range(steps):
            observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
            said = {"observation": observation, "reward": reward, "terminated": terminated, **info}
            moments.append((self._now(), _bits(said)))
            if terminated or truncated:
                break
        return moments

    def _now(self) -> int:
        return int(self.times[int(self._env.state.row)])

    def leaks(self, seed: int, known_steps: int) -> list[str]:
        """What differs up to a step when every bar after it is another one.

        Something must differ later: a test in which nothing can differ would find no leak either.
        """
        one = self.played(self.data, seed)
        now = one[min(known_steps, len(one) - 2)][0]
        other = self.played(scramble_after_time(self.data, now, seed), seed)
        known = [when for when, _ in one if when <= now]
        found = {name for (_, a), (_, b) in zip(one[: len(known)], other, strict=False) for name in differing(a, b)}
        assert found or len(other) >= len(known)
        assert one[len(known) :] != other[len(known) :], "other bars should change what comes after"
        return sorted(found)


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    return [name for name in one if one[name] != other[name]]


def _bits(said: dict[str, Any]) -> dict[str, bytes]:
    return {name: np.asarray(value).tobytes() for name, value in said.items()}
