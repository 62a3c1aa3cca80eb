"""Another accountant for perpetuals and for orders inside the bar: from docs/markets.md, in exact decimal numbers.

It shares no code with the worlds. An account is a wallet and a book of positions, each with what was paid for it and
the collateral that answers for it; a bar is a list of prices that is walked from one to the next.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from rookery.data.dataset import Bars, Dataset
from worlds.market.market_bars import START

ZERO, ONE, MILLION = Decimal(0), Decimal(1), Decimal(1_000_000)
INITIAL = 100_000.0
FIGURES = ("equity", "cash", "free", "margin", "fees", "spread_cost", "impact_cost", "funding_cost", "trades",
           "liquidations", "shortfall", "turnover", "exposure")  # fmt: skip


def exact(numbers: Any) -> list[Decimal]:
    return [Decimal(float(number)) for number in numbers]


Prices = list[dict[str, list[Decimal]]]  # of each coin, by column


def exact_prices(data: Dataset) -> Prices:
    wanted = ("open", "high", "low", "close", "volume", "spread", "funding")
    return [{name: exact(bars[name]) for name in wanted} for bars in data.bars]


def wild_bars(symbols: tuple[str, ...], count: int, seed: int = 1, move: float = 0.012) -> Dataset:
    """Bars with gaps and wide ranges, where the volume is about what an account trades; with spreads, and funding every
    eight hours."""
    rng = np.random.default_rng(seed)
    times = START + 3600 * np.arange(1, count + 1)
    made = []
    for symbol in symbols:
        close = 1.1 * np.exp(np.cumsum(rng.normal(0, move, count)))
        opened = np.concatenate([[1.1], close[:-1]]) * np.exp(rng.normal(0, 0.3 * move, count))
        high, low = (
            extreme(opened, close) * np.exp(sign * rng.exponential(move, count))
            for extreme, sign in ((np.maximum, 1), (np.minimum, -1))
        )
        columns = {
            "open": opened, "high": high, "low": low, "close": close, "volume": rng.uniform(0, 1e6, count),
            "noise": rng.normal(0, 1, count), "spread": rng.uniform(0, 0.0004, count),
            "funding": np.where(times % 28_800 == 0, rng.normal(0, 0.001, count), 0.0),
        }  # fmt: skip
        made.append(Bars(symbol, times, columns))
    return Dataset(tuple(made), 3600, "24/7")


@dataclass
class Position:
    units: Decimal = ZERO
    paid: Decimal = ZERO  # for the units; negative if they were sold
    collateral: Decimal = ZERO
    age: int = 0

    def worth(self, price: Decimal) -> Decimal:
        return self.collateral + self.units * price - self.paid


@dataclass
class Orders:
    """Of one coin and one bar."""

    market: Decimal = ZERO
    limit: Decimal = ZERO
    limit_price: Decimal = ZERO
    stop: Decimal = ZERO  # distances, 0 for none
    profit: Decimal = ZERO


@dataclass
class Accountant:
    """One account. `rules` are the world's options by name, `spot` that it is never short."""

    data: Dataset
    prices: Prices
    rules: dict[str, Any]
    row: int
    spot: bool = False
    wallet: Decimal = Decimal(INITIAL)
    book: list[Position] = field(default_factory=list)
    said: dict[str, Decimal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rule = {name: Decimal(value) for name, value in self.rules.items() if isinstance(value, (int, float))}
        self.book = [Position() for _ in self.data.bars]
        self.equity = self.wallet

    def price(self, coin: int, column: str) -> Decimal:
        return self.prices[coin][column][self.row]

    # --- orders -------------------------------------------------------------------------------------------------

    def decide(self, action: list[Decimal]) -> list[Orders]:
        """What is ordered at the close of the bar in `row`."""
        count, rule = len(self.book), self.rule
        wanted = [(a + 1) / 2 if self.spot else a for a in action[:count]]
        whole = max(ONE, sum(map(abs, wanted), ZERO))
        found = []
        for coin, position in enumerate(self.book):
            price, orders = self.price(coin, "close"), Orders()
            found.append(orders)
            change = wanted[coin] / whole * rule["leverage"] * self.equity - position.units * price
            units = change / price if abs(change) > rule["min_change"] * self.equity else ZERO
            old = position.units != 0 and 0 < rule["hold_limit"] <= position.age
            if old:
                units, position.age = -position.units * rule["forced_sale"], 0
            against = units * position.units < 0
            if against and abs(position.units + units) * price < rule["min_order"]:
                units = -position.units
            elif abs(units) * price < rule["min_order"]:
                units = ZERO
            orders.market = units
            if len(action) > count:
                away, orders.stop, orders.profit = (
                    min(max(action[part * count + coin], ZERO), ONE) * rule["widest_order"] for part in (1, 2, 3)
                )
                if away and not old:
                    orders.market, orders.limit = ZERO, units
                    orders.limit_price = price * (1 - away if units > 0 else 1 + away)
        return found

    # --- costs and changes of positions -------------------------------------------------------------------------

    def rates(self, coin: int, value: Decimal, maker: bool) -> dict[str, Decimal]:
        rule = self.rule
        if maker:
            return {"fees": rule["maker_fee"]}
        spread = rule["half_spread"] + (self.price(coin, "spread") if self.rules["spread_of_data"] else 0)
        return {"fees": rule["fee"], "spread_cost": spread,
                "impact_cost": rule["slippage"] + rule["impact"] * value / MILLION}  # fmt: skip

    def charge(self, coin: int, value: Decimal, maker: bool) -> Decimal:
        total = ZERO
        for name, rate in self.rates(coin, value, maker).items():
            self.said[name] += rate * value
            total += rate * value
        self.said["trades"] += 1
        self.said["turnover"] += value / self.before
        self.wallet -= total
        return total

    def close(self, coin: int, size: Decimal, price: Decimal, maker: bool) -> None:
        """So many units of a position, whatever its side."""
        position = self.book[coin]
        if size == abs(position.units):
            self.wallet += position.worth(price)
            self.book[coin] = Position()
        else:
            part = size / abs(position.units)
            self.wallet += position.worth(price) * part
            position.units -= position.units * part
            position.paid -= position.paid * part
            position.collateral -= position.collateral * part
        self.charge(coin, size * price, maker)

    def add(self, coin: int, units: Decimal, price: Decimal, maker: bool) -> Decimal:
        position = self.book[coin]
        collateral = abs(units) * price / self.rule["leverage"]
        position.units, position.paid = position.units + units, position.paid + units * price
        position.collateral += collateral
        self.wallet -= collateral
        return collateral + self.charge(coin, abs(units) * price, maker)

    def seize(self, coin: int, price: Decimal) -> None:
        """Liquidation."""
        position = self.book[coin]
        value, rest = abs(position.units) * price, position.worth(price)
        taken = min(max(rest, ZERO), self.rule["liquidation_fee"] * value)
        self.wallet += max(rest, ZERO) - taken
        self.said["fees"] += taken
        self.said["shortfall"] += max(-rest, ZERO)
        self.said["trades"] += 1
        self.said["liquidations"] += 1
        self.said["turnover"] += value / self.before
        self.book[coin] = Position()

    def is_lost(self, coin: int, price: Decimal) -> bool:
        position = self.book[coin]
        maintenance = self.rule["margin_call"] * abs(position.units) * price
        return position.units != 0 and position.worth(price) <= maintenance

    def price_of_loss(self, coin: int) -> Decimal:
        """Where worth and maintenance meet: both are straight lines."""
        position = self.book[coin]
        slope = position.units - self.rule["margin_call"] * abs(position.units)
        return (position.paid - position.collateral) / slope

    # --- a bar --------------------------------------------------------------------------------------------------

    def bar(self, action: np.ndarray) -> dict[str, Decimal]:
        self.said = dict.fromkeys(FIGURES, ZERO)
        self.before = self.equity
        orders = self.decide(exact(action))
        self.row += 1
        self.volume = [
            self.rule["volume_share"] * self.price(coin, "volume") if self.rule["volume_share"] else Decimal("1e200")
            for coin in range(len(self.book))
        ]
        for coin, placed in enumerate(orders):
            if self.is_lost(coin, self.price(coin, "open")):
                self.seize(coin, self.price(coin, "open"))
                placed.market = placed.limit = ZERO
        self.at_the_open(orders)
        self.spendable = max(self.wallet, ZERO)
        for coin, placed in enumerate(orders):
            self.walk(coin, placed)
        for coin in range(len(self.book)):
            self.funding(coin)
        return self.valued()

    def at_the_open(self, orders: list[Orders]) -> None:
        opening: dict[int, Decimal] = {}
        for coin, placed in enumerate(orders):
            position, units = self.book[coin], placed.market
            held = position.units
            if units * held < 0:
                size = min(abs(units), abs(held), self.volume[coin])
                units = held + units if size == abs(held) else ZERO
                if size:
                    self.volume[coin] -= size
                    self.close(coin, size, self.price(coin, "open"), False)
            if units:
                opening[coin] = min(abs(units), self.volume[coin]).copy_sign(units)
        need = sum((self.needed(coin, abs(units) * self.price(coin, "open")) for coin, units in opening.items()), ZERO)
        if need <= 0 or self.wallet <= 0:
            return
        scale = min(ONE, self.wallet / need)
        for coin, units in opening.items():
            price = self.price(coin, "open")
            if units and abs(units) * scale * price >= self.rule["min_order"]:
                self.volume[coin] -= abs(units) * scale
                self.add(coin, units * scale, price, False)

    def needed(self, coin: int, value: Decimal) -> Decimal:
        return value * (1 / self.rule["leverage"] + sum(self.rates(coin, value, False).values()))

    def walk(self, coin: int, placed: Orders) -> None:
        opened, high, low, close = (self.price(coin, name) for name in ("open", "high", "low", "close"))
        assumed = self.rules["inside_bar"]
        down_first = assumed == "low-first" or (assumed == "worst" and self.book[coin].units > 0)
        points = [opened, low, high, close] if down_first else [opened, high, low, close]
        if not self.book[coin].units and not placed.limit:
            return
        while len(points) > 1:
            found = self.next_event(coin, placed, points[0], points[1])
            if found is None:
                points.pop(0)
                continue
            kind, price, waited = found
            if kind == "limit":
                self.fill_limit(coin, placed, price, waited)
                points[0] = price
                if assumed == "worst":
                    placed.profit = ZERO
                continue
            size = min(abs(self.book[coin].units), self.volume[coin])
            if kind == "lost":
                self.seize(coin, price)
            elif size:
                self.volume[coin] -= size
                self.close(coin, size, price, waited)
            placed.limit = placed.stop = placed.profit = ZERO

    def next_event(self, coin: int, placed: Orders, start: Decimal, end: Decimal) -> Any:
        """The first thing that happens between two prices: its kind, its price, and whether the order has waited."""
        position, levels = self.book[coin], []  # kind, level, whether from above, whether a touch is enough
        if position.units:
            long, entry = position.units > 0, position.paid / position.units
            sign = 1 if long else -1
            levels.append(("lost", self.price_of_loss(coin), long, True))
            if placed.stop:
                levels.append(("stop", entry * (1 - sign * placed.stop), long, True))
            if placed.profit:
                levels.append(("profit", entry * (1 + sign * placed.profit), not long, False))
        if placed.limit:
            levels.append(("limit", placed.limit_price, placed.limit > 0, False))
        met = []
        for kind, level, from_above, touch in levels:
            reached = min(start, end) if from_above else max(start, end)
            beyond = level - reached if from_above else reached - level
            if beyond > 0 or (touch and beyond == 0):
                price = min(start, level) if from_above else max(start, level)
                order = ("stop", "lost", "profit", "limit").index(kind)
                met.append((abs(price - start), order, kind, price))
        if not met:
            return None
        _, _, kind, price = min(met)
        if kind == "profit":
            return kind, price, price != start
        return kind, price, kind == "limit" and price == placed.limit_price

    def fill_limit(self, coin: int, placed: Orders, price: Decimal, waited: bool) -> None:
        units, held = min(abs(placed.limit), self.volume[coin]).copy_sign(placed.limit), self.book[coin].units
        placed.limit = ZERO
        if units * held < 0:
            size = min(abs(units), abs(held))
            if size:
                self.volume[coin] -= size
                self.close(coin, size, price, waited)
            units = (abs(units) - size).copy_sign(units)
        if units:
            units *= min(ONE, self.spendable / self.needed(coin, abs(units) * price))
            if units and abs(units) * price >= self.rule["min_order"]:
                self.volume[coin] -= abs(units)
                self.spendable -= self.add(coin, units, price, waited)

    def funding(self, coin: int) -> None:
        position, price = self.book[coin], self.price(coin, "close")
        ends, hours = int(self.data.bars[coin].times[self.row]), self.rules["funding_hours"]
        begins, every = ends - self.data.timeframe, hours * 3600
        due = len(range(begins - begins % every + every, ends + 1, every)) if every else 1
        rate = self.rule["funding"] * due
        if self.rules["funding_of_data"]:
            rate += self.price(coin, "funding")
        payment = position.units * price * rate
        if payment:
            position.collateral -= payment
            self.said["funding_cost"] += payment
            if self.is_lost(coin, price):
                self.seize(coin, price)

    def valued(self) -> dict[str, Decimal]:
        prices = [self.price(coin, "close") for coin in range(len(self.book))]
        pairs = list(zip(self.book, prices, strict=True))
        self.equity = self.wallet + sum((position.worth(price) for position, price in pairs), ZERO)
        value = sum((position.units * price for position, price in pairs), ZERO)
        gross = sum((abs(position.units) * price for position, price in pairs), ZERO)
        for position in self.book:
            position.age += position.units != 0
        return {
            **self.said, "equity": self.equity, "cash": self.equity - value, "free": self.wallet,
            "margin": sum((position.collateral for position in self.book), ZERO), "exposure": gross / self.equity,
        }  # fmt: skip


def difference(infos: dict[str, Any], env: int, told: dict[str, Decimal], book: list[Position]) -> float:
    """The largest difference between what the world and the accountant say: amounts as parts of the initial balance,
    units as parts of what it buys, the rest as numbers."""
    worst = 0.0
    for name in FIGURES:
        size = 1.0 if name in ("trades", "liquidations", "turnover", "exposure") else INITIAL
        worst = max(worst, abs(float(Decimal(float(infos[name][env])) - told[name])) / size)
    for units, position in zip(infos["positions"][env], book, strict=True):
        worst = max(worst, abs(float(Decimal(float(units)) - position.units)) / INITIAL)
    return worst


decimal.getcontext().prec = 34
