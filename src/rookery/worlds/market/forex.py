"""Intraday forex as a kernel world: one symbol an env, short, flat or long; and the env of gym-anytrading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from rookery.data.dataset import Bars, Dataset
from rookery.data.features import FOREX_FEATURES
from rookery.errors import OptionError
from rookery.extras import load_polars
from rookery.kernel.tables import TableWindow
from rookery.kernel.world import KernelWorld
from rookery.worlds.market.broker import Broker
from rookery.worlds.market.broker_table import read_broker
from rookery.worlds.market.costs import PRESETS, Costs, find_costs
from rookery.worlds.market.forex_rules import (
    CLOSE,
    DAY,
    DAYS_A_YEAR,
    FUNDING,
    HOUR,
    OPEN,
    RATE_CLOSE,
    RATE_OPEN,
    SPREAD,
    choose_rows,
    observe,
    reset,
    step,
    window_start,
)
from rookery.worlds.market.market_options import check_lookback, names, refuse_unknown, with_own_names
from rookery.worlds.market.market_tables import (
    Market,
    ObservedColumns,
    all_bars,
    find_stretches,
    find_windows,
    load_market,
    need_column,
    rates_to_account,
    scaled,
)

PAIR_COLUMNS = {"rate_open": RATE_OPEN, "rate_close": RATE_CLOSE, "day": DAY, "spread": SPREAD}
DAY_BEGINS = 17  # o'clock in New York, when positions are rolled over: 21:00 UTC in summer, 22:00 in winter

PARAMETERS: dict[str, Any] = {
    "initial_balance": 100_000.0, "leverage": 1.0, "fee": 0.0, "half_spread": 0.0, "slippage": 0.0, "impact": 0.0,
    "swap_long": 0.0, "swap_short": 0.0, "funding": 0.0, "borrow": 0.0, "margin_call": 0.0, "bar_years": 0.0,
    "daily_drawdown": 0.02, "end_on_drawdown": False, "turnover_cap": 5.0, "cooldown": 5, "min_change": 0.05,
    "reward_scale": 100.0, "change_penalty": 0.01, "window": -1, "symbol": -1,
}  # fmt: skip


class Forex(KernelWorld):
    """Trade one currency pair: action 0 is short, 1 is flat, 2 is long. docs/markets.md describes the options."""

    action_space: spaces.Space = spaces.Discrete(3)
    parameters = PARAMETERS
    aliases = {"episode_length": "time_limit", "capital": "initial_balance", "balance": "initial_balance"}
    info = {
        "equity": "f8", "cash": "f8", "exposure": "f8", "turnover": "f8", "trades": "f8", "fees": "f8",
        "spread_cost": "f8", "impact_cost": "f8", "funding_cost": "f8", "drawdown": "f8", "max_drawdown": "f8",
        "sharpe_ratio": "f8", "position": "f8", "row": "i8", "symbol": "i8",
    }  # fmt: skip
    time_limit = 500
    reset: Any = staticmethod(reset)
    observe: Any = staticmethod(observe)
    window_start: Any = staticmethod(window_start)

    def __init__(
        self, data: Any = None, symbols: Any = None, timeframe: str | int | None = None, columns: Any = None,
        lookback: int = 10, costs: str | Mapping[str, Any] | Costs = "ecn-forex", account: str = "USD",
        split: Any = "all", scaling: str = "relative", broker: Any = None, **parameters: Any,
    ) -> None:  # fmt: skip
        chosen = ObservedColumns(names("columns", columns), (), FOREX_FEATURES)
        self.broker = read_broker(broker)
        self.costs = self.broker.costs(find_costs(costs))
        prices = PairPrices(account, self.broker, partial(all_bars, data, timeframe))
        layout = partial(forex_tables, prices=prices, costs=self.costs, scaling=scaling)
        self.market = load_market(
            "forex", data, names("symbols", symbols), timeframe, chosen, layout,
            f"{scaling} {self.costs.columns} {prices.name}",
        )  # fmt: skip
        check_lookback(lookback)
        self.lookback = lookback
        length = parameters.get("episode_length", parameters.get("time_limit", self.time_limit))
        found = find_windows(self.market, lookback, length, split)
        self.windows = found.windows
        self.state = {
            "row": "i8", "last": "i8", "equity": "f8", "units": "f8", "position": "f8", "peak": "f8",
            "max_drawdown": "f8", "day": "f8", "day_equity": "f8", "hour": "f8", "hour_turnover": "f8", "rest": "i8",
            "paused": "i8", "must_close": "i8", "gains": "f8", "squares": "f8", "held": ("f4", (lookback,)),
        }  # fmt: skip
        self.tables = {
            "bars": self.market.bars, "features": self.market.features.reshape(-1),
            "symbol_of": symbol_of_rows(self.market), "windows": found.windows, "starts": found.starts,
            "groups": found.groups, "width": np.array([self.market.features.shape[1]]),
            "swaps": self.broker.swaps(self.market.symbols, usual_prices(self.market)),
        }  # fmt: skip
        width = self.market.features.shape[1]
        self.table_window = TableWindow("features", 0, lookback * width)
        self.observation_space = spaces.Box(-np.inf, np.inf, (lookback * (width + 1),), np.float32)
        self.parameters = {**PARAMETERS, **cost_parameters(self.costs, self.market.timeframe)}
        super().__init__(**parameters)

    @staticmethod
    def step(state: Any, action: Any, params: Any, tables: Any, info: Any) -> Any:
        return step(state, action - 1.0, params, tables, info)

    def hold_action(self, state: Any, observation: np.ndarray) -> Any:
        """The action that orders nothing, for accounts on paper: the position that is held."""
        return int(state.position) + 1

    def closing_action(self) -> Any:
        """The action that closes the position."""
        return 1


class ForexContinuous(Forex):
    """The action is the wanted position, from -1 (short) to 1 (long)."""

    action_space: spaces.Space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    @staticmethod
    def step(state: Any, action: Any, params: Any, tables: Any, info: Any) -> Any:
        return step(state, action[0], params, tables, info)

    def hold_action(self, state: Any, observation: np.ndarray) -> Any:
        return np.array([state.position], np.float32)

    def closing_action(self) -> Any:
        return np.zeros(1, np.float32)


def forex(action_type: str = "discrete", layout: str = "rookery", **options: Any) -> KernelWorld:
    """The world behind "rookery/Forex-v0"."""
    kinds: dict[Any, type[KernelWorld]] = {
        ("discrete", "rookery"): Forex, ("continuous", "rookery"): ForexContinuous,
        ("discrete", "gym-anytrading"): AnyTrading,
    }  # fmt: skip
    if (action_type, layout) not in kinds:
        raise OptionError(
            "action_type should be discrete or continuous, and layout rookery or gym-anytrading (with discrete), "
            f"got {action_type!r} and {layout!r}"
        )
    kind = kinds[action_type, layout]
    refuse_unknown("forex", kind, kind.parameters, options)
    return kind(**with_own_names(options))


def cost_parameters(costs: Costs, timeframe: int) -> dict[str, float]:
    """Costs as parameters of the world."""
    if isinstance(costs.fee, Sequence):
        raise OptionError("costs: forex has one fee for all symbols, got one per asset")
    kinds = ("fee", "half_spread", "slippage", "impact", "swap_long", "swap_short", "funding", "borrow", "margin_call")
    return {kind: costs.number(kind) for kind in kinds} | {"bar_years": timeframe / (DAYS_A_YEAR * 86_400)}


def symbol_of_rows(market: Market) -> np.ndarray:
    """The number of the symbol of each row."""
    return np.repeat(np.arange(len(market.blocks)), market.blocks[:, 1] - market.blocks[:, 0] + 1).astype(np.int16)


def usual_prices(market: Market) -> list[float]:
    """The median close of each symbol."""
    return [float(np.median(market.bars[first : last + 1, CLOSE])) for first, last in market.blocks]


class PairPrices(NamedTuple):
    """What a pair's bars need beside their prices.

    Attributes:
        account: Currency of the account.
        broker: The terms, for spreads.
        everything: Opens all symbols of the data, for rates of conversion.
    """

    account: str
    broker: Broker
    everything: Callable[[], Dataset]

    @property
    def name(self) -> str:
        """In the cache."""
        return f"{self.account} {self.broker.spreads}"

    def columns(self, bars: Bars, dataset: Dataset) -> dict[str, np.ndarray]:
        """The rates of conversion, the trading day, and the spread if the broker's table has one."""
        at_open, at_close = rates_to_account(bars, dataset, self.account, self.everything)
        found = {"rate_open": at_open, "rate_close": at_close, "day": trading_days(bars.times)}
        if self.broker.has_spreads:
            found["spread"] = self.broker.terms(bars.symbol).half_spread(bars["open"])
        return found


def forex_tables(
    dataset: Dataset, columns: Sequence[str], prices: PairPrices, costs: Costs, scaling: str
) -> dict[str, np.ndarray]:
    """The symbols one after another."""
    times, blocks, stretches, all_prices, all_features = [], [], [], [], []
    row = 0
    for bars in dataset.bars:
        table = np.zeros((len(bars), 8))
        table[:, OPEN], table[:, CLOSE] = bars["open"], bars["close"]
        for column, name in ((SPREAD, "spread"), (FUNDING, "funding")):
            if name in costs.columns:
                table[:, column] = need_column(bars, name)
        for name, values in prices.columns(bars, dataset).items():
            table[:, PAIR_COLUMNS[name]] = values
        table[:, HOUR] = (bars.times - 1) // 3600
        features = observed(bars, columns, scaling)
        usable = np.isfinite(features).all(axis=1) & np.isfinite(table).all(axis=1)
        times.append(bars.times)
        blocks.append((row, row + len(bars) - 1))
        stretches.append(find_stretches(bars.times, usable, dataset, row))
        all_prices.append(table)
        all_features.append(features)
        row += len(bars)
    return {
        "times": np.concatenate(times), "blocks": np.array(blocks), "stretches": np.concatenate(stretches),
        "bars": np.concatenate(all_prices), "features": np.nan_to_num(np.concatenate(all_features)),
    }  # fmt: skip


def trading_days(times: np.ndarray) -> np.ndarray:
    """The number of the day that each bar belongs to; one that is complete when the day ends is its last.

    >>> summer, winter = (np.datetime64(day, "s").astype(np.int64) for day in ("2024-07-01T21:00", "2024-12-02T22:00"))
    >>> [np.diff(trading_days(end + np.array([-3600, 0, 3600]))).tolist() for end in (summer, winter)]
    [[0, 1], [0, 1]]
    """
    polars = load_polars()
    utc = polars.Series(times * 1000).cast(polars.Datetime("ms", "UTC"))
    clock = utc.dt.convert_time_zone("America/New_York").dt.replace_time_zone(None).dt.epoch("s").to_numpy()
    return (clock - DAY_BEGINS * 3600 - 1) // 86_400


def observed(bars: Bars, columns: Sequence[str], scaling: str) -> np.ndarray:
    """The scaled columns of a symbol."""
    return np.stack([scaled(name, bars[name], bars["close"], scaling) for name in columns], axis=1)


# --- gym-anytrading ---------------------------------------------------------------------------------------------------

# Its forex env, to compare agents: its observations, actions, rewards and profits. It differs from `Forex` in more than
# its layout: it is always short or long, trades at the close of the next bar, and its rewards are pips without costs.
# Costs are only in the info `total_profit`.
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
