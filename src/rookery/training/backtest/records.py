"""What an account did, step by step, in one fixed window of a market's bars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

COSTS = ("fees", "spread", "impact", "funding")  # kinds of costs, in the order of reports


@dataclass(frozen=True)
class WindowRecord:
    """One account in one window of T steps. Arrays of T + 1 values begin with the bar at which the first order is
    decided; arrays of T values belong to the T bars after it.

    Attributes:
        symbols: The n symbols that could be traded.
        times: When each bar was complete, T + 1 values: UTC seconds.
        equity: The account's value at the close of each bar, T + 1 values.
        opens, closes: Prices of the bars, (T + 1, n), in the account's currency.
        positions: Units held after each step, (T, n); negative if short.
        cash, exposure, turnover, trades, rewards: T values each. Turnover is the traded value as a part of the equity
            before the step.
        costs: Amounts paid in each step, by kind.
        entry_cost: What buying costs, as a part of the bought value, n values: for the comparison with holding.
        carry: What a long position pays at each bar, as a part of its value, (T, n): swap and funding, for the same.
        ruined: Whether the episode ended because the account could not continue.
        fold: The number of the walk-forward fold that it belongs to.
    """

    symbols: tuple[str, ...]
    times: np.ndarray
    equity: np.ndarray
    opens: np.ndarray
    closes: np.ndarray
    positions: np.ndarray
    cash: np.ndarray
    exposure: np.ndarray
    turnover: np.ndarray
    trades: np.ndarray
    rewards: np.ndarray
    costs: Mapping[str, np.ndarray]
    entry_cost: np.ndarray
    carry: np.ndarray
    ruined: bool = False
    fold: int | None = None

    def __len__(self) -> int:
        """The number of steps."""
        return len(self.times) - 1


@dataclass(frozen=True)
class MarketFacts:
    """What a report says about the bars and the costs.

    Attributes:
        timeframe: The length of a bar in seconds.
        calendar: When the market is open, as in `Dataset`.
        periods_per_year: How many bars a year has, to annualise with.
        annualised_with: The same in words.
        costs_name: The name of the costs, such as "alpaca-crypto".
        costs_rates: One sentence per rate.
        synthetic: Whether the bars were made by a random generator.
        source: Where the bars come from.
        fingerprint: The hash of the bars, if it is known.
    """

    timeframe: int
    calendar: str
    periods_per_year: float
    annualised_with: str
    costs_name: str
    costs_rates: tuple[str, ...]
    synthetic: bool = False
    source: str = ""
    fingerprint: str = ""
    notes: tuple[str, ...] = field(default=())
