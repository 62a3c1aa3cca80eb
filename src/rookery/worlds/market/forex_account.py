"""Forex as one account over several pairs, as a kernel world: one margin, swaps, stop-out, profits converted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from rookery.data.dataset import Bars, Dataset
from rookery.data.features import FOREX_FEATURES
from rookery.errors import OptionError
from rookery.worlds.market.broker_table import read_broker
from rookery.worlds.market.costs import Costs, find_costs
from rookery.worlds.market.crypto_rules import CLOSE, OPEN, SPREAD
from rookery.worlds.market.forex import PairPrices
from rookery.worlds.market.forex_account_rules import (
    DAY,
    HIGH,
    LOW,
    RATE_CLOSE,
    RATE_OPEN,
    observe,
    order_targets,
    reset,
    run_bar,
)
from rookery.worlds.market.market_options import refuse_unknown, with_own_names
from rookery.worlds.market.market_tables import Layout, all_bars
from rookery.worlds.market.portfolio import MarginAccount, fees

PARAMETERS: dict[str, Any] = {
    "initial_balance": 100_000.0, "leverage": 3.0, "min_change": 0.02, "half_spread": 0.0, "slippage": 0.0,
    "impact": 0.0, "swap_long": 0.0, "swap_short": 0.0, "margin_call": 0.0, "stop_below": 0.1, "reward_scale": 100.0,
    "benchmark_weight": 0.0, "window": -1,
}  # fmt: skip
COLUMNS = {"rate_open": RATE_OPEN, "rate_close": RATE_CLOSE, "day": DAY, "spread": SPREAD}
NOT_CHARGED = ("funding", "borrow")  # costs of other worlds: here a position pays swaps


class ForexAccount(MarginAccount):
    """Hold several pairs on one margin. Each action is a wanted position, from -1 (short) to 1 (long), as a part of
    what the account can hold with its leverage. docs/forex-account.md describes the options."""

    kind = "forex"
    usual_features = FOREX_FEATURES
    always_observed = ()
    time_limit = 500
    defaults = PARAMETERS
    bar_columns = {OPEN: "open", CLOSE: "close", HIGH: "high", LOW: "low"}
    bar_width = 8
    state_per_asset = ("entry", "gain", "first_price")
    further_info = {"free": "f8", "margin": "f8", "stop_outs": "f8"}
    info_per_asset = ("positions", "gains")
    reset: Any = staticmethod(reset)
    observe: Any = staticmethod(observe)

    def __init__(
        self, data: Any = None, symbols: Any = None, timeframe: str | int | None = None, columns: Any = None,
        lookback: int = 10, costs: str | Mapping[str, Any] | Costs = "ecn-forex", account: str = "USD",
        split: Any = "all", scaling: str = "relative", broker: Any = None, **parameters: Any,
    ) -> None:  # fmt: skip
        self.broker = read_broker(broker)
        prices = PairPrices(account, self.broker, partial(all_bars, data, timeframe))
        self.converted, self._bars_name = partial(pair_columns, prices=prices), prices.name
        costs = self.broker.costs(find_costs(costs))
        refuse_other_costs(costs)
        super().__init__(data, symbols, timeframe, columns, lookback, costs, split, scaling, **parameters)
        del self.converted  # and the data in it, which no worker needs
        leverage, least = self.values["leverage"], self.values["margin_call"]
        if leverage <= 0.0 or leverage * least >= 1.0:
            raise OptionError(
                f"leverage = {leverage:g} with a stop-out (margin_call) at {least:g} of the positions: the margin, "
                "1 / leverage, has to be larger"
            )

    def more_tables(self) -> dict[str, np.ndarray]:
        usual_prices = np.median(self.market.bars[:, :, CLOSE], axis=0)
        return {"swaps": self.broker.swaps(self.market.symbols, usual_prices.tolist())}

    @staticmethod
    def step(state: Any, action: Any, params: Any, tables: Any, scratch: Any, info: Any) -> Any:
        order_targets(state, action, params, tables, scratch)
        return run_bar(state, params, tables, scratch, info)

    @staticmethod
    def own_numbers(assets: int) -> int:
        return 1 + 2 * assets

    def layout(self, scaling: str) -> tuple[Layout, str]:
        layout, name = super().layout(scaling)
        return layout, f"one account {name} {self._bars_name}"

    def cost_parameters(self, assets: int) -> dict[str, Any]:
        costs = self.costs
        kinds = ("half_spread", "slippage", "impact", "swap_long", "swap_short", "margin_call")
        return {**{kind: costs.number(kind) for kind in kinds}, "fee": fees(costs.fee, assets)}


def refuse_other_costs(costs: Costs) -> None:
    """A cost that is named is never silently zero."""
    for kind in NOT_CHARGED:
        if getattr(costs, kind) != 0.0:
            raise OptionError(
                f"costs: {costs.name} has {kind} = {getattr(costs, kind)}, which a forex account does not pay: set it "
                "to 0; swap_long and swap_short, or a broker's table, are what positions cost over night"
            )


def pair_columns(bars: Bars, dataset: Dataset, prices: PairPrices) -> dict[int, np.ndarray]:
    """The columns of the table `bars` that a pair needs beside its prices."""
    return {COLUMNS[name]: values for name, values in prices.columns(bars, dataset).items()}


def forex_account(action_type: str = "weights", layout: str = "rookery", **options: Any) -> ForexAccount:
    """The world behind "rookery/ForexAccount-v0"."""
    if action_type not in ("weights", "continuous") or layout != "rookery":
        raise OptionError(f"action_type should be weights, and layout rookery, got {action_type!r} and {layout!r}")
    refuse_unknown("forex-account", ForexAccount, [*PARAMETERS, "fee", "min_order"], options)
    return ForexAccount(**with_own_names(options))
