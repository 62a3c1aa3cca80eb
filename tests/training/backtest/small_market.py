"""A small market as a kernel world: two symbols, three windows, actions that set the position. It has what a backtest
asks of a market world: `market`, `windows`, `costs`, the info columns and the parameter `window`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.kernel.world import KernelWorld
from training.backtest.recorded import HOUR, START

ROWS = 120  # of each symbol
SYMBOLS = ("EURUSD", "USDJPY")


def bars(seed: int = 4) -> np.ndarray:
    """Columns: open, close, rates of conversion at both, spread, funding, trading day, hour."""
    rng = np.random.default_rng(seed)
    table = np.zeros((2 * ROWS, 8))
    for number, level in enumerate((1.1, 150.0)):
        rows = slice(number * ROWS, (number + 1) * ROWS)
        closes = level * np.exp(np.cumsum(0.002 * rng.standard_normal(ROWS)))
        opens = np.concatenate([[level], closes[:-1]]) * np.exp(0.0005 * rng.standard_normal(ROWS))
        table[rows, 0], table[rows, 1] = opens, closes
        table[rows, 2], table[rows, 3] = (1.0, 1.0) if number == 0 else (1 / opens, 1 / closes)
        table[rows, 6] = np.arange(ROWS) // 24
    return table


class SmallMarket(KernelWorld):
    """Actions: short, flat, long, with all of the equity."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(3)
    state = {"row": "i8", "last": "i8", "units": "f8", "equity": "f8"}
    info = {
        "equity": "f8", "cash": "f8", "exposure": "f8", "turnover": "f8", "trades": "f8", "fees": "f8",
        "spread_cost": "f8", "impact_cost": "f8", "funding_cost": "f8", "position": "f8", "row": "i8",
    }  # fmt: skip
    parameters = {
        "initial_balance": 1000.0, "fee": 0.0002, "half_spread": 0.0001, "slippage": 0.0, "impact": 0.0,
        "swap_long": 0.02, "funding": 0.0, "window": -1,
    }  # fmt: skip
    time_limit = 20

    def __init__(self, split: Any = "all", costs: Any = "own", data: Any = None, **parameters: Any) -> None:
        times = np.tile(START + HOUR * np.arange(ROWS), 2)
        self.windows = (
            np.array([[2, 60], [70, 119], [122, 239]]) if split == "all" else np.array([[80, 119], [200, 239]])
        )
        self.costs = SimpleNamespace(name=costs, fee=0.0002, describe=lambda: ["fee 0.02 % of each trade"])
        self.market = SimpleNamespace(
            times=times, symbols=SYMBOLS, timeframe=HOUR, calendar="forex", synthetic=True, place="small",
            blocks=np.array([[0, ROWS - 1], [ROWS, 2 * ROWS - 1]]), bars=bars(),
        )  # fmt: skip
        self.tables = {"bars": self.market.bars, "windows": self.windows}
        super().__init__(**parameters)

    @staticmethod
    def reset(state: Any, params: Any, tables: Any) -> None:
        window = max(int(params.window), 0)
        state.row, state.last = tables.windows[window, 0], tables.windows[window, 1]
        state.equity = params.initial_balance

    @staticmethod
    def step(state: Any, action: Any, params: Any, tables: Any, info: Any) -> Any:
        before, bar = tables.bars[state.row], tables.bars[state.row + 1]
        state.row += 1
        state.equity += state.units * (bar[0] - before[1]) * bar[2]
        wanted = (action - 1) * state.equity / (bar[0] * bar[2])
        traded = abs(wanted - state.units) * bar[0] * bar[2] if wanted * state.units <= 0 else 0.0
        info.turnover, info.trades = traded / state.equity, 1.0 if traded > 0 else 0.0
        info.fees, info.spread_cost = traded * params.fee, traded * params.half_spread
        if traded > 0:
            state.units = wanted
        state.equity += state.units * (bar[1] - bar[0]) * bar[3] - info.fees - info.spread_cost
        nights = bar[6] - before[6]
        info.funding_cost = max(state.units, 0.0) * bar[1] * bar[3] * params.swap_long * nights / 365.0
        state.equity -= info.funding_cost
        info.impact_cost = 0.0
        info.equity, info.cash, info.position, info.row = state.equity, state.equity, state.units, state.row
        info.exposure = abs(state.units) * bar[1] * bar[3] / state.equity
        return state.equity / params.initial_balance - 1.0, False, state.row >= state.last

    @staticmethod
    def observe(state: Any, out: Any, tables: Any) -> None:
        bar = tables.bars[state.row]
        out[0], out[1] = 100.0 * (bar[1] / bar[0] - 1.0), 1.0 if state.units > 0.0 else 0.0
