"""What the worlds of several assets in one account have in common: options, tables and observations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    reset,
    window_start,
)
from rookery.worlds.market.market_options import check_lookback, names
from rookery.worlds.market.market_tables import (
    Layout,
    ObservedColumns,
    currencies,
    find_stretches,
    find_windows,
    load_market,
    need_column,
    scaled,
)

# Further columns of the table `bars`, by number, of one symbol of a dataset.
Converted = Callable[[Bars, Dataset], Mapping[int, np.ndarray]]
COST_KINDS = ("half_spread", "slippage", "impact", "funding")  # and the fee, which is per asset
PARAMETERS: dict[str, Any] = {
    "initial_balance": 100_000.0, "max_order": 0.1, "min_change": 0.02, "half_spread": 0.0, "slippage": 0.0,
    "impact": 0.0, "funding": 0.0, "hold_limit": 48, "forced_sale": 0.05, "stop_below": 0.1, "reward_scale": 100.0,
    "benchmark_weight": 1.0, "absolute_reward": 0.0, "cash_reward": 0.0, "concentration_penalty": 0.0,
    "concentration_limit": 0.4, "few_positions_penalty": 0.0, "min_positions": 3, "position_weight": 0.01, "window": -1,
}  # fmt: skip


class Portfolio(KernelWorld):
    """An account that holds several assets. Its kinds say what actions mean, and by which rules a bar is stepped."""

    aliases = {"episode_length": "time_limit", "capital": "initial_balance", "balance": "initial_balance"}
    kind = "crypto"  # of the bars: their usual calendar, and the synthetic ones
    usual_features: tuple[str, ...] = CRYPTO_FEATURES
    time_limit = 288  # a day of 5-minute bars
    clips_actions = True
    always_observed: tuple[str, ...] = BAR_COLUMNS  # columns that are observed beside the features
    by_column = False  # whether the features of a row are in the order of columns, or of assets
    defaults = PARAMETERS
    bar_columns: Mapping[int, str] = {OPEN: "open", CLOSE: "close"}  # of the table `bars`
    bar_width = 4
    converted: Converted | None = None  # of a world whose assets have different currencies
    actions_per_asset = 1
    goes_short = False
    state_per_asset: tuple[str, ...] = ()  # further fields with a number for each asset
    scratch_per_asset: tuple[str, ...] = ("orders",)
    scratch_of_account: Mapping[str, Any] = {}
    further_info: Mapping[str, Any] = {}
    info_per_asset: tuple[str, ...] = ("positions",)
    reset: Any = staticmethod(reset)
    observe: Any = staticmethod(observe)
    window_start: Any = staticmethod(window_start)

    def __init__(
        self, data: Any = None, symbols: Any = None, timeframe: str | int | None = None, columns: Any = None,
        lookback: int = 5, costs: str | Mapping[str, Any] | Costs = "alpaca-crypto", split: Any = "all",
        scaling: str = "relative", **parameters: Any,
    ) -> None:  # fmt: skip
        chosen = ObservedColumns(names("columns", columns), self.always_observed, self.usual_features)
        self.costs = find_costs(costs)
        layout, layout_name = self.layout(scaling)
        self.market = load_market(self.kind, data, names("symbols", symbols), timeframe, chosen, layout, layout_name)
        check_lookback(lookback)
        self.lookback = lookback
        length = parameters.get("episode_length", parameters.get("time_limit", self.time_limit))
        found = find_windows(self.market, lookback, length, split)
        self.windows = found.windows
        assets, width = len(self.market.symbols), self.market.features.shape[1]
        self.state = {
            "row": "i8", "last": "i8", "cash": "f8", "equity": "f8", "equal_weight": "f8", "peak": "f8",
            "holdings": ("f8", (assets,)), "first_units": ("f8", (assets,)), "age": ("i8", (assets,)),
            **{name: ("f8", (assets,)) for name in self.state_per_asset},
        }  # fmt: skip
        self.scratch = {
            **{name: ("f8", (assets,)) for name in self.scratch_per_asset}, **self.scratch_of_account
        }  # fmt: skip
        self.info = {
            "equity": "f8", "cash": "f8", "exposure": "f8", "equal_weight": "f8", "turnover": "f8", "trades": "f8",
            "fees": "f8", "spread_cost": "f8", "impact_cost": "f8", "funding_cost": "f8", "drawdown": "f8",
            "row": "i8", **self.further_info, **{name: ("f8", (assets,)) for name in self.info_per_asset},
        }  # fmt: skip
        self.tables = {
            "bars": self.market.bars, "features": self.market.features.reshape(-1),
            "width": np.array([width, lookback * width]), "windows": found.windows, "starts": found.starts,
            **self.more_tables(),
        }  # fmt: skip
        own = self.own_numbers(assets)
        size = own + lookback * width
        self.table_window = TableWindow("features", own, lookback * width)
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (self.actions_per_asset * assets,), np.float32)
        self.parameters = {
            **self.defaults, **self.cost_parameters(assets), "min_order": np.full(assets, 10.0),
        }  # fmt: skip
        super().__init__(**parameters)

    def cost_parameters(self, assets: int) -> dict[str, Any]:
        """Costs as parameters of the world."""
        return {**{kind: self.costs.number(kind) for kind in COST_KINDS}, "fee": fees(self.costs.fee, assets)}

    def more_tables(self) -> dict[str, np.ndarray]:
        """Tables of its kind."""
        return {}

    def layout(self, scaling: str) -> tuple[Layout, str]:
        """What makes the tables of the world, and its name in the cache."""
        layout = partial(
            portfolio_tables, costs=self.costs, scaling=scaling, by_column=self.by_column, bar_columns=self.bar_columns,
            bar_width=self.bar_width, converted=self.converted,
        )  # fmt: skip
        return layout, f"{scaling} {self.by_column} {self.costs.columns}"

    def actions_for(self, weights: np.ndarray) -> np.ndarray:
        """The actions of a world whose actions are wanted weights, (bars, actions), for parts of the account in each
        asset, (bars, assets)."""
        return 2 * np.maximum(weights, 0.0) - 1

    @staticmethod
    def own_numbers(assets: int) -> int:
        """How many numbers of an observation are about the portfolio."""
        return 1 + assets

    @property
    def asset_columns(self) -> list[int]:
        """How observations are laid out, as `ppo.asset_columns` has it: cash, what is held of each asset, and the
        features of each row."""
        assets = len(self.market.symbols)
        held, features = self.own_numbers(assets) // assets, self.market.features.shape[1] // assets
        row = [1] * features if self.by_column else [features]
        return [1, *[1] * held, *row * self.lookback]


class MarginAccount(Portfolio):
    """A portfolio whose actions are wanted positions, from -1 (short) to 1 (long), as parts of what the account can
    hold with its leverage. Its observation begins with a number of the account, then the positions."""

    goes_short = True

    def actions_for(self, weights: np.ndarray) -> np.ndarray:
        orders = np.zeros((len(weights), (self.actions_per_asset - 1) * weights.shape[1]))
        return np.hstack([weights / self.values["leverage"], orders])

    def hold_action(self, state: Any, observation: np.ndarray) -> np.ndarray:
        """The positions that the account has."""
        action = self.closing_action()
        assets = len(self.market.symbols)
        action[:assets] = observation[1 : 1 + assets] / self.values["leverage"]
        return action

    def closing_action(self) -> np.ndarray:
        """The action that closes everything."""
        return np.zeros(self.action_space.shape, np.float32)  # type: ignore[arg-type]  # a Box has one


def fees(fee: float | Sequence[float], assets: int) -> np.ndarray:
    """The fee of each asset."""
    if np.ndim(fee) and len(fee) != assets:  # type: ignore[arg-type]
        raise OptionError(f"costs: fee has {len(fee)} numbers for {assets} assets")  # type: ignore[arg-type]
    return np.broadcast_to(np.asarray(fee, np.float64), (assets,)).copy()


def portfolio_tables(
    dataset: Dataset, columns: Sequence[str], costs: Costs, scaling: str, by_column: bool,
    bar_columns: Mapping[int, str], bar_width: int, converted: Converted | None = None,
) -> dict[str, np.ndarray]:  # fmt: skip
    """All symbols side by side, at the times at which every one has a bar. Without `converted`, the rates with which
    values are added, they need one currency."""
    if converted is None:
        one_currency(dataset)
    times = reduce(np.intersect1d, [bars.times for bars in dataset.bars])
    if len(times) < 2:
        raise DataError(f"{dataset.place}: the symbols {', '.join(dataset.symbols)} have no two times in common")
    table = np.zeros((len(times), len(dataset.bars), bar_width))
    features = []
    for i, bars in enumerate(dataset.bars):
        rows = np.searchsorted(bars.times, times)
        for column, name in bar_columns.items():
            table[:, i, column] = bars[name][rows]
        for column, name in ((SPREAD, "spread"), (FUNDING, "funding")):
            if name in costs.columns:
                table[:, i, column] = need_column(bars, name)[rows]
        for column, values in ({} if converted is None else converted(bars, dataset)).items():
            table[:, i, column] = values[rows]
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
