"""Perpetual futures as a kernel world: several coins, long or short, on isolated margins; and orders inside the bar,
for perpetuals and for coins that are bought without credit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from rookery.data.dataset import Dataset
from rookery.errors import OptionError
from rookery.worlds.market.costs import Costs
from rookery.worlds.market.crypto_rules import CLOSE, OPEN
from rookery.worlds.market.inside_bar import INSIDE_BAR, run_with_orders
from rookery.worlds.market.market_options import refuse_unknown, with_own_names
from rookery.worlds.market.market_tables import Layout
from rookery.worlds.market.perpetual_rules import (
    FUNDING_TIMES,
    HIGH,
    LOW,
    VOLUME,
    observe,
    order_targets,
    run_bar,
)
from rookery.worlds.market.portfolio import PARAMETERS as PORTFOLIO_PARAMETERS
from rookery.worlds.market.portfolio import MarginAccount, fees

# Coins that are bought without credit are an account with a leverage of 1.
SPOT: dict[str, Any] = {
    **{name: value for name, value in PORTFOLIO_PARAMETERS.items() if name != "max_order"},
    "hold_limit": 0, "forced_sale": 1.0, "leverage": 1.0, "volume_share": 0.0,
}  # fmt: skip
PARAMETERS: dict[str, Any] = {**SPOT, "leverage": 3.0, "benchmark_weight": 0.0}
ORDERS: dict[str, Any] = {"widest_order": 0.05, "inside_bar": 0}  # of actions that say limits and stops


class Perpetuals(MarginAccount):
    """Hold several perpetuals, long or short. Each action is a wanted position, from -1 (short) to 1 (long), as a part
    of what the account can hold with its leverage. docs/markets.md describes the options."""

    defaults = PARAMETERS
    bar_columns = {OPEN: "open", CLOSE: "close", HIGH: "high", LOW: "low", VOLUME: "volume"}
    bar_width = 8
    state_per_asset = ("entry", "margin")
    scratch_per_asset: tuple[str, ...] = ("orders", "limited", "volume")
    further_info = {"free": "f8", "margin": "f8", "liquidations": "f8", "shortfall": "f8"}
    info_per_asset = ("positions", "spent")
    observe: Any = staticmethod(observe)

    def __init__(
        self, data: Any = None, symbols: Any = None, timeframe: str | int | None = None, columns: Any = None,
        lookback: int = 5, costs: str | Mapping[str, Any] | Costs = "usdt-perpetuals", split: Any = "all",
        scaling: str = "relative", funding_hours: float = 8.0, **parameters: Any,
    ) -> None:  # fmt: skip
        if isinstance(funding_hours, bool) or not isinstance(funding_hours, (int, float)) or funding_hours < 0:
            raise OptionError(f"funding_hours should be the hours between two payments, got {funding_hours!r}")
        self.funding_hours = funding_hours
        super().__init__(data, symbols, timeframe, columns, lookback, costs, split, scaling, **parameters)
        leverage, maintenance = self.values["leverage"], self.values["margin_call"]
        if leverage <= 0.0 or leverage * maintenance >= 1.0:
            raise OptionError(
                f"leverage = {leverage:g} with a maintenance margin (margin_call) of {maintenance:g}: the margin of a "
                "new position, 1 / leverage, has to be larger"
            )

    @staticmethod
    def step(state: Any, action: Any, params: Any, tables: Any, scratch: Any, info: Any) -> Any:
        order_targets(state, action, params, tables, scratch)
        return run_bar(state, params, tables, scratch, info)

    @staticmethod
    def own_numbers(assets: int) -> int:
        return 1 + 3 * assets

    def layout(self, scaling: str) -> tuple[Layout, str]:
        layout, name = super().layout(scaling)
        return partial(with_funding_times, layout=layout, hours=self.funding_hours), f"{name} {self.funding_hours}"

    def cost_parameters(self, assets: int) -> dict[str, Any]:
        costs = self.costs
        if costs.liquidation_fee is None:
            raise OptionError(
                f"costs: {costs.name} has no liquidation_fee, which perpetuals need: add it, as in "
                f'{{"preset": "{costs.name}", "liquidation_fee": 0.0125}}'
            )
        return {
            **super().cost_parameters(assets), "maker_fee": maker_fees(costs, assets),
            "margin_call": costs.margin_call, "liquidation_fee": costs.liquidation_fee,
        }  # fmt: skip


class PerpetualBrackets(Perpetuals):
    """After all wanted positions, an action has three more numbers per coin: how far from the last close to enter, and
    how far from the entry price to stop and to take a profit, in parts of `widest_order`; 0 or less: no such order."""

    defaults = {**PARAMETERS, **ORDERS}
    actions_per_asset = 4
    scratch_per_asset = (*Perpetuals.scratch_per_asset, "limit", "stop", "profit")
    scratch_of_account = {"free": "f8"}

    @staticmethod
    def step(state: Any, action: Any, params: Any, tables: Any, scratch: Any, info: Any) -> Any:
        order_targets(state, action, params, tables, scratch)
        return run_with_orders(state, action, params, tables, scratch, info)

    def encode(self, values: Mapping[str, Any]) -> dict[str, Any]:
        chosen = values.get("inside_bar", 0)
        if isinstance(chosen, str):
            if chosen not in INSIDE_BAR:
                raise OptionError(f"inside_bar should be one of {', '.join(INSIDE_BAR)}, got {chosen!r}")
            values = {**values, "inside_bar": INSIDE_BAR.index(chosen)}
        return super().encode(values)


def perpetuals(action_type: str = "weights", layout: str = "rookery", **options: Any) -> Perpetuals:
    """The world behind "rookery/Perpetuals-v0"."""
    kinds = {"weights": Perpetuals, "continuous": Perpetuals, "brackets": PerpetualBrackets}
    if action_type not in kinds or layout != "rookery":
        raise OptionError(
            f"action_type should be weights or brackets, and layout rookery, got {action_type!r} and {layout!r}"
        )
    kind = kinds[action_type]
    refuse_unknown("perpetuals", kind, [*kind.defaults, "fee", "maker_fee", "min_order"], options)
    return kind(**with_own_names(options))


def maker_fees(costs: Costs, assets: int) -> np.ndarray:
    """What orders pay that have waited at their price."""
    return fees(costs.fee if costs.maker_fee is None else costs.maker_fee, assets)


def with_funding_times(dataset: Dataset, columns: Sequence[str], layout: Layout, hours: float) -> dict[str, np.ndarray]:
    """The tables of a layout, with the number of funding times in each bar: every so many hours since midnight UTC, and
    once a bar if `hours` is 0. A bar that is complete at such a time contains it."""
    tables = layout(dataset, columns)
    times, seconds = tables["times"], hours * 3600
    begins = times - dataset.timeframe
    counts = times // seconds - begins // seconds if seconds else np.ones(len(times))
    tables["bars"][:, :, FUNDING_TIMES] = counts[:, None]
    return tables
