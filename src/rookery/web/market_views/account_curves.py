"""The curves of an account: equity, drawdown, positions, costs and turnover, by what is known of each bar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rookery.training.backtest.joined_account import FIELDS, STRATEGIES, WEIGHT
from rookery.training.backtest.records import COSTS

PRICES = "prices"  # equal parts of all symbols without costs: what a paper account is compared with
WORTH = ("equity", "return", "drawdown")


@dataclass(frozen=True)
class AccountCurves:
    """An account, bar by bar.

    Attributes:
        times: UTC seconds, in order.
        columns: What is known of each bar: the value of strategies, `traded`, `exposed`, and the costs by kind.
        weights: Symbol -> its position as a part of the equity.
    """

    times: np.ndarray
    columns: Mapping[str, np.ndarray]
    weights: Mapping[str, np.ndarray]

    @classmethod
    def from_rows(cls, rows: np.ndarray) -> AccountCurves:
        """The account of a file; see `account_file`."""
        columns = {name: np.ascontiguousarray(rows[name], np.float64) for name in FIELDS}
        weights = {
            name.removeprefix(WEIGHT): np.ascontiguousarray(rows[name], np.float32)
            for name in rows.dtype.names or ()
            if name.startswith(WEIGHT)
        }
        return cls(columns.pop("time"), columns, weights)

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        arrays = (self.times, *self.columns.values(), *self.weights.values())
        return sum(array.nbytes for array in arrays)

    @property
    def strategies(self) -> list[str]:
        """Whose value is known."""
        return [name for name in (*STRATEGIES, PRICES) if name in self.columns]

    def names(self) -> list[str]:
        """The names of all curves. Weights are numbered, as symbols may contain anything."""
        worth = [f"{what}/{strategy}" for what in WORTH for strategy in self.strategies]
        costs = [f"cost/{kind}" for kind in (*COSTS, "total")]
        return [*worth, *costs, "turnover", "exposure", *(f"weight/{place}" for place in range(len(self.weights)))]

    def curve(self, name: str) -> np.ndarray | None:
        """A curve by its name; None if there is none. Costs and turnover are sums since the beginning."""
        what, _, which = name.partition("/")
        if what in WORTH and which in self.strategies:
            return _worth(what, self.columns[which])
        if what == "cost" and which in (*COSTS, "total"):
            kinds = COSTS if which == "total" else (which,)
            return np.cumsum(sum((self.columns[kind] for kind in kinds), np.zeros(len(self.times))))
        if what == "weight" and which.isdecimal() and int(which) < len(self.weights):
            return list(self.weights.values())[int(which)]
        if name == "turnover":
            before = np.concatenate([self.columns["agent"][:1], self.columns["agent"][:-1]])
            return np.cumsum(_part(self.columns["traded"], before))
        return _part(self.columns["exposed"], self.columns["agent"]) if name == "exposure" else None


def _worth(what: str, equity: np.ndarray) -> np.ndarray:
    """The value of an account, its return since the first bar, or how far it is below its highest value so far."""
    if what == "equity":
        return equity
    if what == "return":
        return _part(equity, np.full(len(equity), equity[0])) - 1 if len(equity) else equity
    peaks = np.fmax.accumulate(equity) if len(equity) else equity
    return np.minimum(_part(equity, peaks) - 1, 0.0)


def _part(values: np.ndarray, of: np.ndarray) -> np.ndarray:
    """A quotient; 0 where nothing is left."""
    whole = np.where(of > 0, of, 1.0)
    return np.where(of > 0, values / whole, 0.0)
