"""A crypto portfolio as a kernel world: several assets, cash, and orders to buy and sell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.errors import OptionError
from rookery.worlds.market.costs import Costs
from rookery.worlds.market.crypto_rules import observe_finrl, order_parts, order_weights, run_bar
from rookery.worlds.market.inside_bar import run_with_orders
from rookery.worlds.market.market_options import refuse_unknown, with_own_names
from rookery.worlds.market.perpetuals import ORDERS, SPOT, PerpetualBrackets, maker_fees
from rookery.worlds.market.portfolio import PARAMETERS, Portfolio


class Crypto(Portfolio):
    """Hold several coins. Each action, from -1 to 1, sells or buys a part of the portfolio's value, at most
    `max_order`. docs/markets.md describes the options."""

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


class CryptoBrackets(PerpetualBrackets):
    """Orders inside the bar for coins that are bought without credit: -1 is nothing of a coin, 1 as much as the others
    leave."""

    defaults = {**SPOT, **ORDERS}
    goes_short = False

    def __init__(
        self, data: Any = None, symbols: Any = None, timeframe: str | int | None = None, columns: Any = None,
        lookback: int = 5, costs: str | Mapping[str, Any] | Costs = "alpaca-crypto", split: Any = "all",
        scaling: str = "relative", **parameters: Any,
    ) -> None:  # fmt: skip
        super().__init__(data, symbols, timeframe, columns, lookback, costs, split, scaling, 0.0, **parameters)

    @staticmethod
    def step(state: Any, action: Any, params: Any, tables: Any, scratch: Any, info: Any) -> Any:
        order_weights(state, action, params, tables, scratch)
        return run_with_orders(state, action, params, tables, scratch, info)

    def cost_parameters(self, assets: int) -> dict[str, Any]:
        without_credit = {"margin_call": 0.0, "liquidation_fee": 0.0, "maker_fee": maker_fees(self.costs, assets)}
        return {**Portfolio.cost_parameters(self, assets), **without_credit}

    def actions_for(self, weights: np.ndarray) -> np.ndarray:
        return np.hstack([Portfolio.actions_for(self, weights), np.zeros((len(weights), 3 * weights.shape[1]))])

    def hold_action(self, state: Any, observation: np.ndarray) -> np.ndarray:
        action, assets = self.closing_action(), len(self.market.symbols)
        action[:assets] += 2.0 * observation[1 : 1 + assets]
        return action

    def closing_action(self) -> np.ndarray:
        action = super().closing_action()
        action[: len(self.market.symbols)] = -1.0
        return action


def crypto(action_type: str = "orders", layout: str = "rookery", **options: Any) -> Portfolio:
    """The world behind "rookery/Crypto-v0"."""
    if action_type == "brackets" and layout == "rookery":
        known = [name for name in CryptoBrackets.defaults if name != "leverage"]
        refuse_unknown("crypto", CryptoBrackets, [*known, "fee", "maker_fee", "min_order"], options)
        return CryptoBrackets(**with_own_names(options))
    kinds: dict[Any, type[Crypto]] = {
        ("orders", "rookery"): Crypto, ("continuous", "rookery"): Crypto, ("weights", "rookery"): CryptoWeights,
        ("orders", "finrl"): CryptoFinRL, ("continuous", "finrl"): CryptoFinRL,
    }  # fmt: skip
    if (action_type, layout) not in kinds:
        raise OptionError(
            "action_type should be orders, weights or brackets, and layout rookery or finrl (with orders), "
            f"got {action_type!r} and {layout!r}"
        )
    refuse_unknown("crypto", Crypto, [*PARAMETERS, "fee", "min_order"], options)
    return kinds[action_type, layout](**with_own_names(options))
