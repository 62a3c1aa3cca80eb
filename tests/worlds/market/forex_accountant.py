"""Another accountant for forex as one account: from docs/forex-account.md, in exact decimal numbers.

It shares no code with the world: rates of exchange and rollovers are looked up moment by moment, in the bars and in the
calendar of New York, and an account is a balance and a book of what was paid for each position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from rookery.data.dataset import Bars, Dataset
from worlds.market.perpetual_accountant import INITIAL, MILLION, ONE, ZERO, exact

NEW_YORK = ZoneInfo("America/New_York")
FIRST = int(datetime(2024, 1, 8, tzinfo=UTC).timestamp())  # a Monday; clocks change in March and November
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")
AMOUNTS = ("equity", "cash", "free", "margin", "fees", "spread_cost", "impact_cost", "funding_cost", "gains")
NUMBERS = ("trades", "stop_outs", "turnover", "exposure")


def wild_pairs(symbols: tuple[str, ...], count: int, seed: int = 1, move: float = 0.008, hours: int = 4) -> Dataset:
    """Bars with gaps and wide ranges while the market is open, over both changes of the clocks; with spreads."""
    rng = np.random.default_rng(seed)
    times = FIRST + 3600 * hours * np.arange(1, 2 * count)
    times = times[((times - 1 + 2 * 3600) // 86_400 + 3) % 7 < 5][:count]  # from Sunday to Friday, 22:00
    made = []
    for symbol in symbols:
        first = 150.0 if symbol.endswith("JPY") else 1.1
        close = first * np.exp(np.cumsum(rng.normal(0, move, count)))
        opened = np.concatenate([[first], close[:-1]]) * np.exp(rng.normal(0, 0.3 * move, count))
        high, low = (
            extreme(opened, close) * np.exp(sign * rng.exponential(move, count))
            for extreme, sign in ((np.maximum, 1), (np.minimum, -1))
        )
        columns = {
            "open": opened, "high": high, "low": low, "close": close, "volume": np.ones(count),
            "noise": rng.normal(0, 1, count), "spread": rng.uniform(0, 0.0004, count),
        }  # fmt: skip
        made.append(Bars(symbol, times, columns))
    return Dataset(tuple(made), 3600 * hours, "forex")


@cache
def rollovers(start: int, end: int) -> tuple[str, ...]:
    """The weekdays on which it was five o'clock in New York from `start` up to before `end`."""
    found = []
    day = datetime.fromtimestamp(start, NEW_YORK).date() - timedelta(days=1)
    for _ in range((end - start) // 86_400 + 3):
        moment = datetime(day.year, day.month, day.day, 17, tzinfo=NEW_YORK).timestamp()
        if start <= moment < end:
            found.append(day.strftime("%A").lower())
        day += timedelta(days=1)
    return tuple(found)


class Bank:
    """What a currency is worth in another one, by the closes that are known."""

    def __init__(self, data: Dataset) -> None:
        self.closes = {
            (bars.symbol[:3], bars.symbol[3:]): dict(zip(bars.times.tolist(), exact(bars["close"]), strict=True))
            for bars in data.bars
        }
        self.times = sorted({time for known in self.closes.values() for time in known})
        self._found: dict[tuple[str, str, int], Decimal] = {}

    def rate(self, start: str, end: str, moment: int) -> Decimal:
        key = (start, end, moment)
        if key not in self._found:
            self._found[key] = self._rate(*key)
        return self._found[key]

    def _rate(self, start: str, end: str, moment: int) -> Decimal:
        direct = self._step(start, end, moment)
        if direct is not None:
            return direct
        for one, other in self.closes:
            for middle in (one, other):
                first, second = self._step(start, middle, moment), self._step(middle, end, moment)
                if first is not None and second is not None:
                    return first * second
        raise AssertionError(f"nobody changes {start} to {end}")

    def _step(self, start: str, end: str, moment: int) -> Decimal | None:
        for pair, is_inverse in (((start, end), False), ((end, start), True)):
            if pair in self.closes:
                known = self.closes[pair]
                last = moment
                while last not in known:
                    last -= 3600
                return 1 / known[last] if is_inverse else known[last]
        return None


@dataclass
class Position:
    units: Decimal = ZERO
    paid: Decimal = ZERO  # in the right currency; negative if the units were sold
    valued: Decimal = ZERO  # what it had gained at the last close


@dataclass
class Accountant:
    """One account. `rules` are the world's options by name, `table` is the broker's, by pair."""

    data: Dataset
    prices: list[dict[str, list[Decimal]]]
    bank: Bank
    rules: Mapping[str, Any]
    table: Mapping[str, Any]
    row: int
    balance: Decimal = Decimal(INITIAL)
    book: list[Position] = field(default_factory=list)
    said: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rule = {name: Decimal(value) for name, value in self.rules.items() if isinstance(value, (int, float))}
        self.book = [Position() for _ in self.data.bars]
        self.equity = self.balance

    # --- prices and rates ---------------------------------------------------------------------------------------------

    def price(self, pair: int, column: str) -> Decimal:
        return self.prices[pair][column][self.row]

    def rate(self, pair: int, column: str) -> Decimal:
        """Of the right currency, at the open or at the close."""
        left, right = self.data.bars[pair].symbol[:3], self.data.bars[pair].symbol[3:]
        account = self.rules["account"]
        if right == account:
            return ONE
        if left == account:
            return 1 / self.price(pair, column)
        end = int(self.data.bars[pair].times[self.row])
        return self.bank.rate(right, account, end - self.data.timeframe if column == "open" else end)

    # --- changes ------------------------------------------------------------------------------------------------------

    def charge(self, pair: int, value: Decimal) -> None:
        rule = self.rule
        spread = rule["half_spread"]
        if self.rules["spread_of_data"]:
            spread += self.price(pair, "spread")
        if "spread" in self.table:
            spread += self.table["spread"][pair] / 2 / self.price(pair, "open")
        for name, rate in (
            ("fees", rule["fee"]), ("spread_cost", spread),
            ("impact_cost", rule["slippage"] + rule["impact"] * value / MILLION),
        ):  # fmt: skip
            self.said[name] += rate * value
            self.balance -= rate * value
        self.said["trades"] += 1
        self.said["turnover"] += value / self.before

    def cost_rate(self, pair: int, value: Decimal) -> Decimal:
        before, balance, said = self.balance, self.balance, dict(self.said)
        self.charge(pair, value)
        self.balance, self.said, paid = balance, said, before - self.balance
        return paid / value if value else ZERO

    def take(self, pair: int, units: Decimal, price: Decimal) -> None:
        """Sell so many units of a position, of its sign."""
        position, rate = self.book[pair], self.rate(pair, "open")
        paid = position.paid * (units / position.units)
        gain = (units * price - paid) * rate
        self.balance += gain
        self.said["gains"][pair] += gain
        position.units, position.paid = position.units - units, position.paid - paid
        self.charge(pair, abs(units) * price * rate)

    # --- a bar --------------------------------------------------------------------------------------------------------

    def bar(self, action: np.ndarray) -> dict[str, Any]:
        self.said = {name: ZERO for name in (*AMOUNTS, *NUMBERS)} | {"gains": [ZERO] * len(self.book)}
        self.before = self.equity
        orders = self.decide(exact(action))
        self.swaps()
        self.row += 1
        for pair, order in enumerate(orders):
            held = self.book[pair].units
            if order * held < 0:
                size = min(abs(order), abs(held))
                self.take(pair, size.copy_sign(held), self.price(pair, "open"))
                orders[pair] = (abs(order) - size).copy_sign(order)
        self.open(orders)
        self.stop_out()
        return self.valued()

    def decide(self, action: list[Decimal]) -> list[Decimal]:
        rule, whole, orders = self.rule, max(ONE, sum(map(abs, action), ZERO)), []
        for pair, wanted in enumerate(action):
            unit = self.price(pair, "close") * self.rate(pair, "close")
            held = self.book[pair].units
            change = wanted / whole * rule["leverage"] * self.equity - held * unit
            order = change / unit if abs(change) > rule["min_change"] * self.equity else ZERO
            if order * held < 0 and abs(held + order) * unit < rule["min_order"]:
                order = -held
            elif abs(order) * unit < rule["min_order"]:
                order = ZERO
            orders.append(order)
        return orders

    def swaps(self) -> None:
        """At five in New York between this bar and the next one."""
        times = self.data.bars[0].times
        days = rollovers(int(times[self.row]), int(times[self.row + 1]))
        for pair, position in enumerate(self.book):
            side = "long" if position.units > 0 else "short"
            unit, rate = self.price(pair, "close"), self.rate(pair, "close")
            for day in days:
                paid = unit * self.rule[f"swap_{side}"] / 365
                if side in self.table and day in DAYS:
                    amount, kind = self.table[side][pair], self.table["kind"][pair]
                    nights = 3 if day == self.table["triple"][pair] else 1
                    paid -= nights * (amount * unit / 36_500 if kind == "percent" else amount)
                self.balance -= paid * abs(position.units) * rate
                self.said["funding_cost"] += paid * abs(position.units) * rate

    def worth(self, pair: int, price: Decimal, rate: Decimal) -> tuple[Decimal, Decimal]:
        """What a position has gained, and what it is worth."""
        position = self.book[pair]
        return (position.units * price - position.paid) * rate, abs(position.units) * price * rate

    def open(self, orders: list[Decimal]) -> None:
        rule, free, need = self.rule, self.balance, ZERO
        values = []
        for pair, order in enumerate(orders):
            price, rate = self.price(pair, "open"), self.rate(pair, "open")
            gain, value = self.worth(pair, price, rate)
            free += gain - value / rule["leverage"]
            values.append(abs(order) * price * rate)
            need += values[-1] * (1 / rule["leverage"] + self.cost_rate(pair, values[-1]))
        if need <= 0 or free <= 0:
            return
        scale = min(ONE, free / need)
        for pair, order in enumerate(orders):
            if order and values[pair] * scale >= rule["min_order"]:
                position = self.book[pair]
                position.units += order * scale
                position.paid += order * scale * self.price(pair, "open")
                self.charge(pair, values[pair] * scale)

    def at(self, part: Decimal) -> list[Decimal]:
        """The prices when they have gone this part of the way from their opens to their worst."""
        found = []
        for pair, position in enumerate(self.book):
            opened, worst = self.price(pair, "open"), self.price(pair, "low" if position.units > 0 else "high")
            found.append(opened * (1 - part) + worst * part)
        return found

    def too_little(self, part: Decimal) -> Decimal:
        """By how much the account is above what the broker demands."""
        above = self.balance
        for pair, price in enumerate(self.at(part)):
            gain, value = self.worth(pair, price, self.rate(pair, "open"))
            above += gain - self.rule["margin_call"] * value
        return above

    def stop_out(self) -> None:
        part = ZERO
        while any(position.units for position in self.book):
            now, end = self.too_little(part), self.too_little(ONE)
            if now >= 0:
                if end > 0:
                    return
                part += (1 - part) * now / (now - end)
            prices = self.at(part)
            gains = [
                (self.worth(pair, prices[pair], self.rate(pair, "open"))[0], pair)
                for pair, position in enumerate(self.book) if position.units
            ]  # fmt: skip
            _, worst = min(gains)
            self.take(worst, self.book[worst].units, prices[worst])
            self.said["stop_outs"] += 1

    def valued(self) -> dict[str, Any]:
        self.equity, net, gross = self.balance, ZERO, ZERO
        for pair, position in enumerate(self.book):
            gain, value = self.worth(pair, self.price(pair, "close"), self.rate(pair, "close"))
            self.equity += gain
            net += value.copy_sign(position.units)
            gross += value
            self.said["gains"][pair] += gain - position.valued
            position.valued = gain
        margin = gross / self.rule["leverage"]
        return {
            **self.said, "equity": self.equity, "cash": self.equity - net, "free": self.equity - margin,
            "margin": margin, "exposure": gross / self.equity,
        }  # fmt: skip


def difference(infos: Mapping[str, Any], env: int, told: Mapping[str, Any], book: list[Position]) -> float:
    """The largest difference between what the world and the accountant say: amounts as parts of the initial balance,
    units as parts of what it buys, the rest as numbers."""
    worst = 0.0
    for name in (*AMOUNTS, *NUMBERS):
        size = INITIAL if name in AMOUNTS else 1.0
        ours, theirs = np.atleast_1d(infos[name][env]), np.atleast_1d(np.array(told[name], object))
        for one, other in zip(ours.tolist(), theirs.tolist(), strict=True):
            worst = max(worst, abs(float(Decimal(one) - other)) / size)
    for units, position in zip(infos["positions"][env].tolist(), book, strict=True):
        worst = max(worst, abs(float(Decimal(units) - position.units)) / INITIAL)
    return worst
