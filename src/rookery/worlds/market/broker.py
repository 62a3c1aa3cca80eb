"""A broker's terms for each currency pair: swaps, and optionally spreads, in the units of the broker.

A swap is what a position receives at each rollover, at 17:00 in New York: negative if it pays, as brokers publish it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from rookery.data.importing.spreads import MOST as MOST_SPREAD
from rookery.errors import DataError
from rookery.worlds.market.costs import FROM_BROKER, Costs
from rookery.worlds.market.forex_rules import DAYS_A_YEAR, LONG_AMOUNT, LONG_RATE, TRIPLE
from rookery.worlds.market.market_tables import currencies

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")
SWAP_UNITS, SPREAD_UNITS = ("points", "pips", "percent"), ("points", "pips")
MOST_A_YEAR = 1.0  # of the price: what a swap may be in a year; a larger one is in another unit
POINTS_OF_A_PIP = 10
# Pairs of these are quoted with five digits, in yen with three; of others nobody knows.
USUAL = ("USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "NZD", "SEK", "NOK", "DKK", "SGD")


@dataclass(frozen=True)
class Terms:
    """The row of a pair, as it was given. Swaps in percent are per year."""

    symbol: str
    swap_long: float | None = None
    swap_short: float | None = None
    swap_unit: str | None = None
    spread: float | None = None
    spread_unit: str | None = None
    digits: int | None = None
    triple: str = "wednesday"

    def size(self, unit: str) -> float:
        """What a point or a pip is, in the right currency."""
        base, quote = currencies(self.symbol)
        if self.digits is None and not (base in USUAL and quote in USUAL):
            raise DataError(
                f"{self.symbol}: the broker's table needs `digits`, the number of digits that its prices have behind "
                "the point: only that says how much a point is"
            )
        digits = self.digits if self.digits is not None else 3 if quote == "JPY" else 5
        return (POINTS_OF_A_PIP if unit == "pips" else 1) * 10.0**-digits

    def swap_costs(self, price: float) -> np.ndarray:
        """The row of the table `swaps`, checked against the usual price of the pair."""
        assert self.swap_long is not None and self.swap_short is not None and self.swap_unit is not None
        paid = -np.array([self.swap_long, self.swap_short])
        is_rate = self.swap_unit == "percent"
        paid = paid / 100 if is_rate else paid * self.size(self.swap_unit)
        a_year = paid if is_rate else DAYS_A_YEAR * paid / price
        for side, given, part in zip(("long", "short"), (self.swap_long, self.swap_short), a_year, strict=True):
            if abs(part) > MOST_A_YEAR:
                raise DataError(
                    f"{self.symbol}: read as {self.swap_unit}, the {side} swap of {given:g} is "
                    f"{100 * abs(part):,.4g} % of the price in a year, and more than {100 * MOST_A_YEAR:g} % can only "
                    f"be another unit: give the right swap_unit ({', '.join(SWAP_UNITS)}), or `digits`"
                )
        if paid.sum() < -1e-12:
            raise DataError(
                f"{self.symbol}: swaps of {self.swap_long:g} (long) and {self.swap_short:g} (short) would earn money "
                "with no risk, by being long and short at once: a negative swap is paid, and a positive one received"
            )
        row, first = np.zeros(5), LONG_RATE if is_rate else LONG_AMOUNT
        row[first : first + 2], row[TRIPLE] = paid, WEEKDAYS.index(self.triple)
        return row

    def half_spread(self, prices: np.ndarray) -> np.ndarray:
        """As parts of these prices."""
        assert self.spread is not None and self.spread_unit is not None
        found = self.spread * self.size(self.spread_unit) / 2 / prices
        usual = 2 * float(np.nanmedian(found))
        if usual > MOST_SPREAD:
            raise DataError(
                f"{self.symbol}: read as {self.spread_unit}, the spread of {self.spread:g} is {100 * usual:,.4g} % of "
                f"the price, and more than {100 * MOST_SPREAD:g} % can only be another unit: give the right "
                f"spread_unit ({', '.join(SPREAD_UNITS)}), or `digits`"
            )
        return found

    def describe(self) -> str:
        """
        >>> Terms("EURUSD", -7.2, 2.1, "points", 0.8, "pips").describe()
        'EURUSD: swap -7.2 (long) and 2.1 (short) points a night, three times on Wednesday; spread 0.8 pips'
        """
        found = []
        if self.swap_unit is not None:
            each = "% a year" if self.swap_unit == "percent" else f"{self.swap_unit} a night"
            found.append(
                f"swap {self.swap_long:g} (long) and {self.swap_short:g} (short) {each}, three times on "
                f"{self.triple.capitalize()}"
            )
        if self.spread_unit is not None:
            found.append(f"spread {self.spread:g} {self.spread_unit}")
        return f"{self.symbol}: {'; '.join(found)}"


@dataclass(frozen=True)
class Broker:
    """The terms of all pairs; no rows mean no table. What it has takes the place of the flat rates of `costs`."""

    rows: tuple[Terms, ...] = ()

    @property
    def has_swaps(self) -> bool:
        return any(row.swap_unit is not None for row in self.rows)

    @property
    def has_spreads(self) -> bool:
        return any(row.spread_unit is not None for row in self.rows)

    @property
    def spreads(self) -> tuple[Any, ...]:
        """What bars are made with: part of the name of their tables."""
        return tuple((row.symbol, row.spread, row.spread_unit, row.digits) for row in self.rows if self.has_spreads)

    def terms(self, symbol: str) -> Terms:
        """The row of a symbol. What is not known is not zero."""
        pair = currencies(symbol)
        row = next((row for row in self.rows if currencies(row.symbol) == pair), None)
        if row is None:
            known = ", ".join(row.symbol for row in self.rows)
            raise DataError(f"{symbol}: the broker's table has no row for it (it has {known})")
        for kind, wanted, unit in (
            ("swap", self.has_swaps, row.swap_unit), ("spread", self.has_spreads, row.spread_unit),
        ):  # fmt: skip
            if wanted and unit is None:
                raise DataError(f"{symbol}: the broker's table has no {kind} for it, and others have one")
        return replace(row, symbol=symbol)

    def costs(self, costs: Costs) -> Costs:
        """Costs, with what this table says left to it."""
        if self.has_swaps:
            costs = replace(costs, swap_long=FROM_BROKER, swap_short=FROM_BROKER)
        return replace(costs, half_spread=FROM_BROKER) if self.has_spreads else costs

    def swaps(self, symbols: Sequence[str], prices: Sequence[float]) -> np.ndarray:
        """The table `swaps`, a row per symbol; zeros if the flat rates hold."""
        if not self.has_swaps:
            return np.zeros((len(symbols), 5))
        return np.stack([self.terms(name).swap_costs(price) for name, price in zip(symbols, prices, strict=True)])

    def as_table(self) -> dict[str, dict[str, Any]]:
        """As `read_broker` takes it, without a file."""
        tables = ({field.name: getattr(row, field.name) for field in fields(Terms)} for row in self.rows)
        return {
            table.pop("symbol"): {name: value for name, value in table.items() if value is not None} for table in tables
        }

    def describe(self, symbols: Sequence[str]) -> list[str]:
        """A line per symbol, for reports."""
        return [self.terms(symbol).describe() for symbol in symbols] if self.rows else []
