"""A crypto portfolio as a kernel world: several assets, cash, and orders to buy and sell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.data.dataset import BAR_COLUMNS, Bars, Dataset
from rookery.data.features import CRYPTO_FEATURES
from rookery.errors import DataError, OptionError
from rookery.kernel.tables import TableWindow
from rookery.kernel.world import KernelWorld
from rookery.worlds.market.costs import Costs, find_costs
from rookery.worlds.market.crypto_rules import (
    CLOSE,
    FUNDING,
    OPEN,
    SPREAD,
    observe,
    observe_finrl,
    order_parts,
    order_weights,
    reset,
    run_bar,
    window_start,
)
from rookery.worlds.market.market_options import check_lookback, names, refuse_unknown, with_own_names
from rookery.worlds.market.market_tables import (
    ObservedColumns,
    currencies,
    find_stretches,
    find_windows,
    load_market,
    need_column,
    scaled,
)

COST_KINDS = ("half_spread", "slippage", "impact", "funding")  # and the fee, which is per asset
PARAMETERS: dict[str, Any] = {
    "initial_balance": 100_000.0, "max_order": 0.1, "min_change": 0.02, "half_spread": 0.0, "slippage": 0.0,
    "impact": 0.0, "funding": 0.0, "hold_limit": 48, "forced_sale": 0.05, "stop_below": 0.1, "reward_scale": 100.0,
    "benchmark_weight": 1.0, "absolute_reward": 0.0, "cash_reward": 0.0, "concentration_penalty": 0.0,
    "concentration_limit": 0.4, "few_positions_penalty": 0.0, "min_positions": 3, "position_weight": 0.01, "window": -1,
}  # fmt: skip


class Crypto(KernelWorld):
    """Hold several coins. Each action, from -1 to 1, sells or buys a part of the portfolio's value, at most
    `max_order`. docs/markets.md describes the options."""

    aliases = {"episode_length": "time_limit", "capital": "initial_balance", "balance": "initial_balance"}
    time_limit = 288  # a day of 5-minute bars
    clips_actions = True
    always_observed: tuple[str, ...] = BAR_COLUMNS  # columns that are observed beside the features
    by_column = False  # whether the features of a row are in the order of columns, or of assets
    reset: Any = staticmethod(reset)
    observe: Any = staticmethod(observe)
    window_start: Any = staticmethod(window_start)

    def __init__(
        self, data: Any = None, symbols: Any = None, timeframe: str | int | None = None, columns: Any = None,
        lookback: int = 5, costs: str | Mapping[str, Any] | Costs = "alpaca-crypto", split: Any = "all",
        scaling: str = "relative", **parameters: Any,
    ) -> None:  # fmt: skip
        chosen = ObservedColumns(names("columns", columns), self.always_observed, CRYPTO_FEATURES)
        self.costs = find_costs(costs)
        layout = partial(crypto_tables, costs=self.costs, scaling=scaling, by_column=self.by_column)
        layout_name = f"{scaling} {self.by_column} {self.costs.columns}"
        self.market = load_market("crypto", data, names("symbols", symbols), timeframe, chosen, layout, layout_name)
        check_lookback(lookback)
        self.lookback = lookback
        length = parameters.get("episode_length", parameters.get("time_limit", self.time_limit))
        found = find_windows(self.market, lookback, length, split)
        self.windows = found.windows
        assets, width = len(self.market.symbols), self.market.features.shape[1]
        self.state = {
            "row": "i8", "last": "i8", "cash": "f8", "equity": "f8", "equal_weight": "f8", "peak": "f8",
            "holdings": ("f8", (assets,)), "first_units": ("f8", (assets,)), "age": ("i8", (assets,)),
        }  # fmt: skip
        self.scratch = {"orders": ("f8", (assets,))}
        self.info = {
            "equity": "f8", "cash": "f8", "exposure": "f8", "equal_weight": "f8", "turnover": "f8", "trades": "f8",
            "fees": "f8", "spread_cost": "f8", "impact_cost": "f8", "funding_cost": "f8", "drawdown": "f8",
            "row": "i8", "positions": ("f8", (assets,)),
        }  # fmt: skip
        self.tables = {
            "bars": self.market.bars, "features": self.market.features.reshape(-1),
            "width": np.array([width, lookback * width]), "windows": found.windows, "starts": found.starts,
        }  # fmt: skip
        own = self.own_numbers(assets)
        size = own + lookback * width
        self.table_window = TableWindow("features", own, lookback * width)
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (assets,), np.float32)
        self.parameters = {
            **PARAMETERS, **{kind: self.costs.number(kind) for kind in COST_KINDS},
            "fee": fees(self.costs, assets), "min_order": np.full(assets, 10.0),
        }  # fmt: skip
        super().__init__(**parameters)

    @staticmethod
    def own_numbers(assets: int) -> int:
        """How many numbers of an observation are about the portfolio."""
        return 1 + assets

    @staticmethod
    def step(state: Any, action: Any, params: Any, tables: Any, scratch: Any, info: Any) -> Any:
        order_parts(state, action, params, tables, scratch)
        return run_bar(state, params, tables, scratch, info)

    def hold_action(self, state: Any, observation: np.ndarray) -> np.ndarray:
        """The action that orders nothing, for accounts on paper."""
        return np.zeros(len(self.market.symbols), np.float32)

    def closing_action(self) -> np.ndarray:
        """The action that sells everything."""
        return np.full(len(self.market.symbols), -1.0, np.float32)


class CryptoWeights(Crypto):
    """The actions are the wanted weights of the assets: -1 is nothing, 1 as much as the others leave."""

    @staticmethod
    def step(state: Any, action: Any, params: Any, tables: Any, scratch: Any, info: Any) -> Any:
        order_weights(state, action, params, tables, scratch)
        return run_bar(state, params, tables, scratch, info)

    def hold_action(self, state: Any, observation: np.ndarray) -> np.ndarray:
        """The weights that the assets have, which an observation begins with, after that of cash."""
        return (2.0 * observation[1 : 1 + len(self.market.symbols)] - 1.0).astype(np.float32)


class CryptoFinRL(Crypto):
    """Observations and rewards in the order and size of FinRL's stock env: cash, closes, holdings, then each indicator
    for all assets, unscaled; the change of the account's value times 1e-4. Fills and costs are this world's."""

    always_observed = ()
    by_column = True
    observe: Any = staticmethod(observe_finrl)

    def __init__(self, lookback: int = 1, scaling: str = "none", **options: Any) -> None:
        balance = options.get("initial_balance", PARAMETERS["initial_balance"])
        usual = {"hold_limit": 0, "benchmark_weight": 0.0, "reward_scale": 1e-4 * balance}
        super().__init__(lookback=lookback, scaling=scaling, **{**usual, **options})

    @staticmethod
    def own_numbers(assets: int) -> int:
        return 1 + 2 * assets


def crypto(action_type: str = "orders", layout: str = "rookery", **options: Any) -> Crypto:
    """The world behind "rookery/Crypto-v0"."""
    kinds: dict[Any, type[Crypto]] = {
        ("orders", "rookery"): Crypto, ("continuous", "rookery"): Crypto, ("weights", "rookery"): CryptoWeights,
        ("orders", "finrl"): CryptoFinRL, ("continuous", "finrl"): CryptoFinRL,
    }  # fmt: skip
    if (action_type, layout) not in kinds:
        raise OptionError(
            "action_type should be orders or weights, and layout rookery or finrl (with orders), "
            f"got {action_type!r} and {layout!r}"
        )
    refuse_unknown("crypto", Crypto, [*PARAMETERS, "fee", "min_order"], options)
    return kinds[action_type, layout](**with_own_names(options))


def fees(costs: Costs, assets: int) -> np.ndarray:
    """The fee of each asset."""
    if np.ndim(costs.fee) and len(costs.fee) != assets:  # type: ignore[arg-type]
        raise OptionError(f"costs: fee has {len(costs.fee)} numbers for {assets} assets")  # type: ignore[arg-type]
    return np.broadcast_to(np.asarray(costs.fee, np.float64), (assets,)).copy()


def crypto_tables(
    dataset: Dataset, columns: Sequence[str], costs: Costs, scaling: str, by_column: bool = False
) -> dict[str, np.ndarray]:
    """All symbols side by side, at the times at which every one has a bar."""
    one_currency(dataset)
    times = reduce(np.intersect1d, [bars.times for bars in dataset.bars])
    if len(times) < 2:
        raise DataError(f"{dataset.place}: the symbols {', '.join(dataset.symbols)} have no two times in common")
    table = np.zeros((len(times), len(dataset.bars), 4))
    features = []
    for i, bars in enumerate(dataset.bars):
        rows = np.searchsorted(bars.times, times)
        table[:, i, OPEN], table[:, i, CLOSE] = bars["open"][rows], bars["close"][rows]
        for column, name in ((SPREAD, "spread"), (FUNDING, "funding")):
            if name in costs.columns:
                table[:, i, column] = need_column(bars, name)[rows]
        features.append(observed(bars, columns, scaling)[rows])
    cube = np.stack(features, axis=2 if by_column else 1)
    wide = cube.reshape(len(times), -1)
    usable = np.isfinite(wide).all(axis=1) & np.isfinite(table).all(axis=(1, 2))
    return {
        "times": times, "blocks": np.array([[0, len(times) - 1]]), "bars": table, "features": np.nan_to_num(wide),
        "stretches": find_stretches(times, usable, dataset, 0),
    }  # fmt: skip


def observed(bars: Bars, columns: Sequence[str], scaling: str) -> np.ndarray:
    """The scaled columns of an asset."""
    return np.stack([scaled(name, bars[name], bars["close"], scaling) for name in columns], axis=1)


def one_currency(dataset: Dataset) -> None:
    """Refuse assets that are priced in different currencies: their values could not be added."""
    quotes = {}
    for symbol in dataset.symbols:
        if any(mark in symbol for mark in "/_-"):
            quotes[currencies(symbol)[1]] = symbol
    if len(quotes) > 1:
        raise DataError(
            f"{dataset.place}: {' and '.join(quotes.values())} are priced in different currencies: a portfolio needs "
            "one currency"
        )
