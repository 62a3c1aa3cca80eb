"""The rules of the forex account, for one env: several pairs on one margin, swaps, and the stop-out.

A position has units of the pair's left currency (negative if short) and the average price of its entry. Its gain is in
the right currency, and is worth what that is worth now. It becomes part of the balance, `state.cash`, when the position
is closed.
"""

from __future__ import annotations

from typing import Any

from rookery.worlds.market.crypto_rules import CLOSE, OPEN, pay
from rookery.worlds.market.crypto_rules import reset as reset_portfolio
from rookery.worlds.market.forex_rules import swap_of_nights
from rookery.worlds.market.perpetual_rules import margin_and_costs

# Columns of the table `bars` after open, close and spread: with them a pair's bar is one line of the processor's cache.
DAY, HIGH, LOW, RATE_OPEN, RATE_CLOSE = range(3, 8)
NEVER = 2.0  # a part of the way through a bar that is not reached


def reset(state: Any, params: Any, tables: Any) -> None:
    reset_portfolio(state, params, tables)
    for i in range(len(state.holdings)):
        state.first_price[i] = tables.bars[state.row, i, CLOSE]
        state.first_units[i] /= tables.bars[state.row, i, RATE_CLOSE]


def order_targets(state: Any, action: Any, params: Any, tables: Any, scratch: Any) -> None:
    """Orders in units from actions that are the wanted positions: -1 is all the account can be short, 1 long. If they
    sum to more than 1, they are reduced together. Small changes are not ordered; a small rest is closed too."""
    total = 0.0
    for i in range(len(state.holdings)):
        total += min(abs(action[i]), 1.0)
    scale = params.leverage * state.equity / max(total, 1.0)
    for i in range(len(state.holdings)):
        held = state.holdings[i]
        value = tables.bars[state.row, i, CLOSE] * tables.bars[state.row, i, RATE_CLOSE]
        change = min(max(action[i], -1.0), 1.0) * scale - held * value
        order = change / value if abs(change) > params.min_change * state.equity else 0.0
        if order * held < 0.0 and abs(held + order) * value < params.min_order[i]:
            order = -held
        elif abs(order) * value < params.min_order[i]:
            order = 0.0
        scratch.orders[i] = order


def pay_swaps(state: Any, params: Any, tables: Any, info: Any) -> None:
    """On what is held while one trading day becomes the next."""
    last_day, day = tables.bars[state.row - 1, 0, DAY], tables.bars[state.row, 0, DAY]
    if day == last_day:
        return
    for i in range(len(state.holdings)):
        if state.holdings[i] != 0.0:
            price, rate = tables.bars[state.row - 1, i, CLOSE], tables.bars[state.row - 1, i, RATE_CLOSE]
            cost = swap_of_nights(state.holdings[i], i, price, rate, last_day, day, params, tables)
            info.funding_cost += cost
            state.cash -= cost


# --- fills ------------------------------------------------------------------------------------------------------------


def reduce(i: int, units: float, price: float, state: Any, params: Any, tables: Any, info: Any) -> None:
    """Close so many units of a position, which have its sign."""
    rate = tables.bars[state.row, i, RATE_OPEN]
    gain = units * (price - state.entry[i]) * rate
    state.cash += gain - pay(i, abs(units) * price * rate, params, tables, state, info)
    info.gains[i] += gain
    if units == state.holdings[i]:
        state.holdings[i], state.entry[i] = 0.0, 0.0
    else:
        state.holdings[i] -= units


def fill_reductions(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
    """Orders against a position close it at the open. What they want beyond that stays an order."""
    for i in range(len(state.holdings)):
        held, order = state.holdings[i], scratch.orders[i]
        if order * held < 0.0:
            closed = held if abs(order) >= abs(held) else -order
            scratch.orders[i] = order + closed
            reduce(i, closed, tables.bars[state.row, i, OPEN], state, params, tables, info)


def fill_increases(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
    """All orders that open or add are reduced together if the free margin does not suffice for them and their costs."""
    free, need = state.cash, 0.0
    for i in range(len(state.holdings)):
        held, price, rate = state.holdings[i], tables.bars[state.row, i, OPEN], tables.bars[state.row, i, RATE_OPEN]
        free += held * (price - state.entry[i]) * rate - abs(held) * price * rate / params.leverage
        traded = abs(scratch.orders[i]) * price * rate
        need += traded * margin_and_costs(i, traded, params, tables, state)
    if need <= 0.0 or free <= 0.0:
        return
    scale = min(1.0, free / need)
    for i in range(len(state.holdings)):
        price, rate = tables.bars[state.row, i, OPEN], tables.bars[state.row, i, RATE_OPEN]
        units = scratch.orders[i] * scale
        traded = abs(units) * price * rate
        if traded > 0.0 and traded >= params.min_order[i]:
            held = state.holdings[i]
            state.entry[i] = (held * state.entry[i] + units * price) / (held + units)
            state.holdings[i] += units
            state.cash -= pay(i, traded, params, tables, state, info)


# --- stop-out ---------------------------------------------------------------------------------------------------------


def price_on_the_way(i: int, part: float, state: Any, tables: Any) -> float:
    """After this part of the way from the open to the worst price of the bar for the position."""
    opened, worst = tables.bars[state.row, i, OPEN], tables.bars[state.row, i, LOW if state.holdings[i] > 0.0 else HIGH]
    return opened + part * (worst - opened)


def next_stop_out(part: float, state: Any, params: Any, tables: Any) -> float:
    """After which part of the way, from `part` on, the account is worth less than `margin_call` of its positions; both
    change evenly on the way."""
    at_open, change = state.cash, 0.0
    for i in range(len(state.holdings)):
        held, rate = state.holdings[i], tables.bars[state.row, i, RATE_OPEN]
        opened = tables.bars[state.row, i, OPEN]
        moves = price_on_the_way(i, 1.0, state, tables) - opened
        needed = params.margin_call * abs(held)
        at_open += (held * (opened - state.entry[i]) - needed * opened) * rate
        change += (held - needed) * moves * rate
    if at_open + part * change < 0.0:
        return part
    return at_open / -change if change < 0.0 else NEVER


def largest_loss(part: float, state: Any, tables: Any) -> int:
    """The position that has lost most; -1 if nothing is held."""
    found, least = -1, 0.0
    for i in range(len(state.holdings)):
        held = state.holdings[i]
        if held != 0.0:
            price = price_on_the_way(i, part, state, tables)
            gain = held * (price - state.entry[i]) * tables.bars[state.row, i, RATE_OPEN]
            if found < 0 or gain < least:
                found, least = i, gain
    return found


def watch_margin(state: Any, params: Any, tables: Any, info: Any) -> None:
    """All prices go from their opens to the worst of the bar together. Where the account is worth too little on the
    way, the position with the largest loss is closed, and the others continue."""
    part = 0.0
    for _ in range(len(state.holdings)):
        part = next_stop_out(part, state, params, tables)
        i = largest_loss(part, state, tables) if part <= 1.0 else -1
        if i < 0:
            return
        reduce(i, state.holdings[i], price_on_the_way(i, part, state, tables), state, params, tables, info)
        info.stop_outs += 1.0


# --- a bar ------------------------------------------------------------------------------------------------------------


def value_account(state: Any, params: Any, tables: Any, info: Any) -> None:
    """At the close: what the account and the equal-weight portfolio are worth, and what each pair has earned."""
    equity, value, exposed, equal_weight = state.cash, 0.0, 0.0, params.initial_balance
    for i in range(len(state.holdings)):
        held, price, rate = state.holdings[i], tables.bars[state.row, i, CLOSE], tables.bars[state.row, i, RATE_CLOSE]
        gain = held * (price - state.entry[i]) * rate
        equity += gain
        value += held * price * rate
        exposed += abs(held) * price * rate
        equal_weight += state.first_units[i] * (price - state.first_price[i]) * rate
        info.gains[i] += gain - state.gain[i]
        info.positions[i] = held
        state.gain[i] = gain
    state.equity = equity
    state.equal_weight = equal_weight
    state.peak = max(state.peak, equity)
    info.equity = equity
    info.cash = equity - value
    info.margin = exposed / params.leverage
    info.free = equity - exposed / params.leverage
    info.exposure = exposed / max(equity, 1e-9)
    info.equal_weight = equal_weight
    info.drawdown = 1.0 - equity / state.peak
    info.row = state.row


def run_bar(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> Any:
    """One bar: swaps, then orders that were decided on the last bar fill at its open, those that close positions first;
    then the stop-out; it is valued at its close."""
    before, equal_weight = state.equity, state.equal_weight
    state.row += 1
    pay_swaps(state, params, tables, info)
    fill_reductions(state, params, tables, scratch, info)
    fill_increases(state, params, tables, scratch, info)
    watch_margin(state, params, tables, info)
    value_account(state, params, tables, info)
    market = params.benchmark_weight * (state.equal_weight - equal_weight)
    reward = (state.equity - before - market) / params.initial_balance * params.reward_scale
    return reward, state.equity < params.stop_below * params.initial_balance, state.row >= state.last


def observe(state: Any, out: Any, params: Any, tables: Any) -> None:
    """The free margin, and of each pair the value of its position and its gain, as parts of the account; before the
    features, which the engine copies."""
    share, pairs, exposed = 1.0 / max(state.equity, 1e-9), len(state.holdings), 0.0
    for i in range(pairs):
        value = state.holdings[i] * tables.bars[state.row, i, CLOSE] * tables.bars[state.row, i, RATE_CLOSE]
        exposed += abs(value)
        out[1 + i] = value * share
        out[1 + pairs + i] = state.gain[i] * share
    out[0] = (state.equity - exposed / params.leverage) * share
