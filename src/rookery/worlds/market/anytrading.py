"""The forex env of gym-anytrading as a kernel world, to compare agents: its observations, actions, rewards and profits.

It differs from `forex.Forex` in more than its layout: it is always short or long, trades at the close of the next bar,
and its rewards are pips without costs. Costs are only in the info `total_profit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.data.dataset import Dataset
from rookery.errors import OptionError
from rookery.kernel.world import KernelWorld
from rookery.worlds.market.costs import PRESETS
from rookery.worlds.market.forex_rules import choose_rows
from rookery.worlds.market.market import ObservedColumns, load_market
from rookery.worlds.market.options import check_lookback, names
from rookery.worlds.market.windows import find_windows

INFINITY = 1e10  # the bounds of its observation space
PIPS = 10_000.0


class AnyTrading(KernelWorld):
    """Action 0 sells and 1 buys: the position turns if it is the other one. It begins short.

    The info `total_profit` counts in the left currency of the pair, with its `trade_fee`, as `unit_side="left"` does.
    """

    action_space: spaces.Space = spaces.Discrete(2)
    state = {"row": "i8", "last": "i8", "long": "i8", "trade_row": "i8", "profit": "f8", "reward": "f8"}
    parameters = {"trade_fee": 0.0003, "window": -1, "symbol": -1}
    aliases = {"episode_length": "time_limit"}
    info = {"total_reward": "f8", "total_profit": "f8", "position": "f8", "row": "i8"}

    def __init__(
        self, data: Any = None, symbols: Any = None, timeframe: str | int | None = None, lookback: int = 10,
        frame_bound: Sequence[int] | None = None, split: Any = "all", **parameters: Any,
    ) -> None:  # fmt: skip
        check_lookback(lookback)
        self.costs = PRESETS["none"]  # rewards have none
        chosen = ObservedColumns(("close",), (), ())
        self.market = load_market("forex", data, names("symbols", symbols), timeframe, chosen, tables_of, "anytrading")
        if frame_bound is not None:
            if len(frame_bound) != 2 or frame_bound[0] < lookback:
                raise OptionError(f"frame_bound should be (first, end) with first >= {lookback}, got {frame_bound!r}")
            split, parameters = [list(frame_bound)], {"window": 0, **parameters}
        found = find_windows(self.market, lookback, parameters.get("time_limit", 0), split)
        self.windows = found.windows
        self.tables = {
            "prices": self.market.bars, "features": self.market.features, "windows": found.windows,
            "starts": found.starts, "groups": found.groups,
        }  # fmt: skip
        self.observation_space = spaces.Box(-INFINITY, INFINITY, (lookback, 2), np.float32)
        super().__init__(**parameters)

    @staticmethod
    def reset(state: Any, params: Any, tables: Any) -> None:
        choose_rows(state, params, tables)
        state.trade_row = state.row - 1
        state.profit = 1.0

    @staticmethod
    def step(state: Any, action: Any, params: Any, tables: Any, info: Any) -> Any:
        state.row += 1
        truncated = state.row >= state.last
        turns = action != state.long
        change = tables.prices[state.row] - tables.prices[state.trade_row]
        reward = 0.0
        if turns:
            reward = change * PIPS if state.long == 1 else -change * PIPS
        if (turns or truncated) and state.long == 0:
            state.profit *= (tables.prices[state.trade_row] - params.trade_fee) / tables.prices[state.row]
        if turns:
            state.long = action
            state.trade_row = state.row
        state.reward += reward
        info.total_reward = state.reward
        info.total_profit = state.profit
        info.position = state.long
        info.row = state.row
        return reward, False, truncated

    @staticmethod
    def observe(state: Any, out: Any, tables: Any) -> None:
        rows = len(out)
        for k in range(rows):
            out[k, 0] = tables.features[state.row - rows + 1 + k, 0]
            out[k, 1] = tables.features[state.row - rows + 1 + k, 1]


def tables_of(dataset: Dataset, columns: Sequence[str]) -> dict[str, np.ndarray]:
    """Closes, and their changes. Episodes run over gaps, as they do there."""
    times, blocks, prices, features = [], [], [], []
    row = 0
    for bars in dataset.bars:
        close = bars["close"]
        changes = np.diff(close, prepend=close[0])
        times.append(bars.times)
        blocks.append((row, row + len(bars) - 1))
        prices.append(close.astype(np.float32))
        features.append(np.stack([close, changes], axis=1).astype(np.float32))
        row += len(bars)
    return {
        "times": np.concatenate(times), "blocks": np.array(blocks), "stretches": np.array(blocks),
        "bars": np.concatenate(prices), "features": np.concatenate(features),
    }  # fmt: skip
