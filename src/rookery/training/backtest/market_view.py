"""Prices, costs and facts of a market world, as records and reports need them.

A market world has `market` (its bars as tables), `windows` (first and last row of each fixed window) and `costs`. The
bars of a portfolio are (rows, symbols, columns): all symbols belong to one account. Else they are (rows, columns), one
symbol after another, and each window belongs to one symbol.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from rookery.errors import OptionError
from rookery.training.backtest.calendar_periods import bars_per_year
from rookery.training.backtest.records import MarketFacts
from rookery.worlds.market.crypto_rules import FUNDING, SPREAD
from rookery.worlds.market.forex_rules import CLOSE, DAY, DAYS_A_YEAR, MILLION, OPEN, RATE_CLOSE, RATE_OPEN
from rookery.worlds.market.forex_rules import FUNDING as PAIR_FUNDING
from rookery.worlds.market.forex_rules import SPREAD as PAIR_SPREAD

RATES = ("fee", "half_spread", "slippage", "impact", "swap_long", "swap_short", "funding", "borrow")


class MarketView:
    """A market world as a backtest sees it."""

    def __init__(self, world: Any) -> None:
        for name in ("market", "windows", "costs"):
            if not hasattr(world, name):
                raise OptionError(f"{world.name} is no market world: a backtest needs its `{name}`")
        self.world, self.market = world, world.market
        self.windows = np.asarray(world.windows)
        self.bars = np.asarray(self.market.bars)
        self.is_portfolio = self.bars.ndim == 3

    @property
    def cash(self) -> float:
        """What an account begins with."""
        return float(self.world.values["initial_balance"])

    def symbols(self, window: int) -> tuple[str, ...]:
        """The symbols that can be traded in a window."""
        if self.is_portfolio:
            return tuple(self.market.symbols)
        first = self.windows[window, 0]
        return (self.market.symbols[int(np.searchsorted(self.market.blocks[:, 1], first))],)

    def prices(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Opens and closes of these rows, (rows, symbols), in the currency of the account.

        A pair that earns another currency gets the value of one unit that is bought at the first open that can be
        traded, with all later gains converted when they are made.
        """
        bars = self.bars[rows]
        if self.is_portfolio:
            return bars[:, :, OPEN].copy(), bars[:, :, CLOSE].copy()
        opens, closes = bars[:, OPEN], bars[:, CLOSE]
        if (bars[:, RATE_OPEN] == 1).all() and (bars[:, RATE_CLOSE] == 1).all():
            return opens[:, None].copy(), closes[:, None].copy()
        overnight = (opens[1:] - closes[:-1]) * bars[1:, RATE_OPEN]
        inside = (closes[1:] - opens[1:]) * bars[1:, RATE_CLOSE]
        start = float((bars[:, OPEN] * bars[:, RATE_OPEN])[min(1, len(rows) - 1)])
        first_close = start - (overnight[0] if len(overnight) else 0.0)
        later = first_close + np.cumsum(overnight + inside)
        value_at_close = np.concatenate([[first_close], later])
        value_at_open = np.concatenate([[first_close], value_at_close[:-1] + overnight])
        return value_at_open[:, None], value_at_close[:, None]

    def entry_cost(self, rows: np.ndarray) -> np.ndarray:
        """What buying at the first open costs, as a part of the value, one number per symbol."""
        values = self.world.values
        first = self.bars[rows[min(1, len(rows) - 1)]]
        spread = first[:, SPREAD] if self.is_portfolio else first[PAIR_SPREAD : PAIR_SPREAD + 1]
        traded = self.cash / len(spread)
        flat = values["half_spread"] + values["slippage"] + values["impact"] * traded / MILLION
        return np.asarray(values["fee"], float) + flat + spread

    def carry(self, rows: np.ndarray) -> np.ndarray:
        """What a long position pays at each bar after the first, as a part of its value."""
        bars, values = self.bars[rows], self.world.values
        if self.is_portfolio:
            return values["funding"] + bars[1:, :, FUNDING]
        nights = np.diff(bars[:, DAY])
        return (values["funding"] + bars[1:, PAIR_FUNDING] + values["swap_long"] * nights / DAYS_A_YEAR)[:, None]

    def facts(self) -> MarketFacts:
        """What the report says about the bars and the costs."""
        market, costs = self.market, self.world.costs
        a_year, how = bars_per_year(np.unique(market.times), market.timeframe, market.calendar)
        return MarketFacts(
            timeframe=market.timeframe,
            calendar=market.calendar,
            periods_per_year=a_year,
            annualised_with=how,
            costs_name=costs.name if not self._changed() else f"{costs.name}, changed",
            costs_rates=(*costs.describe(), *self._changed()),
            synthetic=bool(market.synthetic),
            source=str(market.place),
            fingerprint=self._hash(),
        )

    def _changed(self) -> tuple[str, ...]:
        """Rates that an option of the world has set to another value than the costs name."""
        found = []
        for kind in RATES:
            named = getattr(self.world.costs, kind, None)
            if kind in self.world.values and isinstance(named, (int, float)):
                used = np.asarray(self.world.values[kind], float)
                if not (used == named).all():
                    found.append(
                        f"but {kind.replace('_', ' ')} {'/'.join(f'{100 * x:.6g} %' for x in used.reshape(-1))}"
                    )
        return tuple(found)

    def _hash(self) -> str:
        digest = hashlib.sha256(repr((self.market.symbols, self.bars.shape)).encode())
        for array in (self.market.times, self.bars):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]
