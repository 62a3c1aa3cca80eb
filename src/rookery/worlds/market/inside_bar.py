"""Orders that fill inside a bar: limit, stop and take-profit, by a stated path of the price through the bar.

A bar says only its open, high, low and close. `inside_bar` says what is assumed in between:

- "worst": open, then the extreme that harms the position, then the other one, then close. A take-profit does not count
  in the bar in which a limit order fills, because the price may have been there before.
- "low-first", "high-first": open, low, high, close; or open, high, low, close.

The price goes straight from one to the next and meets the orders on its way. A stop fills when its price is touched; a
limit or take-profit order only if the price goes beyond it. An order whose price the open has passed already fills at
the open, and then pays what a market order pays.
"""

from __future__ import annotations

from typing import Any

from rookery.worlds.market.crypto_rules import CLOSE, OPEN, pay
from rookery.worlds.market.perpetual_rules import (
    HIGH,
    LOW,
    NO_LIMIT,
    close_bar,
    fill_open,
    increase,
    limit_orders,
    liquidate,
    liquidation_price,
    margin_and_costs,
    reduce,
)

INSIDE_BAR = ("worst", "low-first", "high-first")
WORST, LOW_FIRST, HIGH_FIRST = range(3)
STAYS, STOPPED, TOOK_PROFIT, LIQUIDATED = range(4)  # what becomes of a position on a leg of the path


def distance(part: float, params: Any) -> float:
    """From an action to a distance as a part of a price; 0 means no order."""
    return min(max(part, 0.0), 1.0) * params.widest_order


def place_orders(state: Any, action: Any, params: Any, tables: Any, scratch: Any) -> None:
    """After the wanted positions an action says, for each coin, how far from the last close to buy or sell, and how far
    from the entry price to stop and to take a profit. What is closed because of its age is closed at the open."""
    coins = len(state.holdings)
    for i in range(coins):
        away = distance(action[coins + i], params)
        scratch.stop[i] = distance(action[2 * coins + i], params)
        scratch.profit[i] = distance(action[3 * coins + i], params)
        scratch.limited[i] = 0.0
        too_old = state.holdings[i] != 0.0 and state.age[i] == 0
        if away > 0.0 and not too_old:
            order, price = scratch.orders[i], tables.bars[state.row, i, CLOSE]
            scratch.limited[i] = order
            scratch.limit[i] = price * (1.0 - away) if order > 0.0 else price * (1.0 + away)
            scratch.orders[i] = 0.0


def run_with_orders(state: Any, action: Any, params: Any, tables: Any, scratch: Any, info: Any) -> Any:
    """One bar: market orders fill at its open, the others on the way of the price to its close."""
    before, equal_weight = state.equity, state.equal_weight
    limit_orders(state, params, tables, scratch)
    place_orders(state, action, params, tables, scratch)
    fill_open(state, params, tables, scratch, info)
    scratch.free = max(state.cash, 0.0)  # what is released inside the bar may come too late for other orders
    for i in range(len(state.holdings)):
        if meets_an_order(i, state, params, tables, scratch):
            follow_path(i, state, params, tables, scratch, info)
    return close_bar(before, equal_weight, state, params, tables, info)


def meets_an_order(i: int, state: Any, params: Any, tables: Any, scratch: Any) -> bool:
    """Whether the range of the bar reaches anything: in most bars it does not, and the path need not be walked."""
    low, high = tables.bars[state.row, i, LOW], tables.bars[state.row, i, HIGH]
    outcome, _ = outcome_of_leg(i, low, high, params, state, scratch)
    return outcome != STAYS or limit_met(i, low, high, scratch) > 0.0


def follow_path(i: int, state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
    bar = tables.bars[state.row, i]
    is_low_first = params.inside_bar == LOW_FIRST or (params.inside_bar == WORST and state.holdings[i] > 0.0)
    first, second = (bar[LOW], bar[HIGH]) if is_low_first else (bar[HIGH], bar[LOW])
    start = bar[OPEN]
    for leg in range(3):
        end = first if leg == 0 else (second if leg == 1 else bar[CLOSE])
        travel(i, start, end, state, params, tables, scratch, info)
        start = end


def travel(i: int, start: float, end: float, state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
    """Fill the orders that the price meets on its way from `start` to `end`, the nearest first."""
    is_met = True
    while is_met:  # each order is met once
        outcome, price = outcome_of_leg(i, start, end, params, state, scratch)
        at = limit_met(i, start, end, scratch)
        if at > 0.0 and (outcome == STAYS or abs(at - start) < abs(price - start)):
            fill_limit(i, at, at == scratch.limit[i], state, params, tables, scratch, info)
            if params.inside_bar == WORST:
                scratch.profit[i] = 0.0
            start = at
        elif outcome != STAYS:
            leave(i, outcome, price, price == start, state, params, tables, scratch, info)
            start = price
        else:
            is_met = False


def limit_met(i: int, start: float, end: float, scratch: Any) -> float:
    """The price at which the limit order fills on a leg; 0 if it does not."""
    limit = scratch.limit[i]
    if scratch.limited[i] > 0.0 and min(start, end) < limit:
        return min(start, limit)
    if scratch.limited[i] < 0.0 and max(start, end) > limit:
        return max(start, limit)
    return 0.0


def outcome_of_leg(i: int, start: float, end: float, params: Any, state: Any, scratch: Any) -> Any:
    """What becomes of the position on a leg, and at which price. Prices of a short position count downwards."""
    if state.holdings[i] == 0.0:
        return STAYS, start
    side = 1.0 if state.holdings[i] > 0.0 else -1.0
    entry = state.entry[i]
    stop = side * entry * (1.0 - side * scratch.stop[i]) if scratch.stop[i] > 0.0 else -NO_LIMIT
    goal = side * entry * (1.0 + side * scratch.profit[i]) if scratch.profit[i] > 0.0 else NO_LIMIT
    lost = side * liquidation_price(i, params, state)
    begin, lowest, highest = side * start, min(side * start, side * end), max(side * start, side * end)
    is_harmed = lowest <= max(stop, lost)
    if highest > goal and (not is_harmed or begin == highest):
        return TOOK_PROFIT, side * max(goal, begin)
    if is_harmed:
        return (STOPPED if stop >= lost else LIQUIDATED), side * min(max(stop, lost), begin)
    return STAYS, start


def pay_maker(i: int, traded: float, params: Any, state: Any, info: Any) -> float:
    """The costs of a trade whose order has waited at its price."""
    fee = traded * params.maker_fee[i]
    info.fees += fee
    info.turnover += traded / state.equity
    info.trades += 1.0
    return fee


def cost_of_fill(i: int, traded: float, has_waited: bool, params: Any, tables: Any, state: Any, info: Any) -> float:
    return pay_maker(i, traded, params, state, info) if has_waited else pay(i, traded, params, tables, state, info)


def fill_limit(
    i: int, price: float, has_waited: bool, state: Any, params: Any, tables: Any, scratch: Any, info: Any
) -> None:
    """Close what the order is against; with what is left of it, open or add as far as the free balance reaches."""
    held, order = state.holdings[i], scratch.limited[i]
    scratch.limited[i] = 0.0
    units = min(abs(order), scratch.volume[i])
    side = 1.0 if order > 0.0 else -1.0
    closed = min(units, abs(held)) if held * order < 0.0 else 0.0
    if closed > 0.0:
        scratch.volume[i] -= closed
        reduce(i, -side * closed, price, state, info)
        state.cash -= cost_of_fill(i, closed * price, has_waited, params, tables, state, info)
    opened = units - closed
    traded = opened * price
    if traded > 0.0:
        scale = min(1.0, scratch.free / (traded * margin_and_costs(i, traded, params, tables, state)))
        opened, traded = opened * scale, traded * scale
    if traded > 0.0 and traded >= params.min_order[i]:
        before = state.cash
        increase(i, side * opened, price, params, state, info)
        state.cash -= cost_of_fill(i, traded, has_waited, params, tables, state, info)
        scratch.free -= before - state.cash
        scratch.volume[i] -= opened


def leave(
    i: int, outcome: int, price: float, at_once: bool, state: Any, params: Any, tables: Any, scratch: Any, info: Any
) -> None:
    """Close a position that is stopped, takes its profit or is lost. Its other orders of this bar are cancelled."""
    held = state.holdings[i]
    scratch.limited[i], scratch.stop[i], scratch.profit[i] = 0.0, 0.0, 0.0
    if outcome == LIQUIDATED:
        liquidate(i, price, params, state, info)
        return
    units = min(abs(held), scratch.volume[i])
    if units > 0.0:
        scratch.volume[i] -= units
        reduce(i, units if held > 0.0 else -units, price, state, info)
        has_waited = outcome == TOOK_PROFIT and not at_once
        state.cash -= cost_of_fill(i, units * price, has_waited, params, tables, state, info)
