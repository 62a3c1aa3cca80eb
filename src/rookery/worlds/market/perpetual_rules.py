"""The rules of the perpetuals world, for one env: isolated margin, funding, liquidation, and orders at the open.

A position has units (negative if short), the average price of its entry, and a margin of its own, which is the most
that it can lose. `state.cash` is the free balance. An account of coins without credit is one with a leverage of 1.
"""

from __future__ import annotations

from typing import Any

from rookery.worlds.market.crypto_rules import (
    CLOSE,
    FUNDING,
    MILLION,
    OPEN,
    pay,
    rate_of_costs,
    reward_of_bar,
)

# Columns of the table `bars` after those of crypto: with them a coin's bar is one line of the processor's cache.
HIGH, LOW, VOLUME, FUNDING_TIMES = range(4, 8)
NO_LIMIT = 1e300


def order_targets(state: Any, action: Any, params: Any, tables: Any, scratch: Any) -> None:
    """Orders in units from actions that are the wanted positions: -1 is all the account can be short, 1 long. If they
    sum to more than 1, they are reduced together."""
    total = 0.0
    for i in range(len(state.holdings)):
        total += min(abs(action[i]), 1.0)
    scale = params.leverage * state.equity / max(total, 1.0)
    bars = tables.bars[state.row]
    for i in range(len(state.holdings)):
        price = bars[i, CLOSE]
        change = min(max(action[i], -1.0), 1.0) * scale - state.holdings[i] * price
        scratch.orders[i] = change / price if abs(change) > params.min_change * state.equity else 0.0


def limit_orders(state: Any, params: Any, tables: Any, scratch: Any) -> None:
    """What is held for long is closed in part. Small orders are not sent, unless they close a position; a small rest is
    closed with the order that would leave it."""
    bars = tables.bars[state.row]
    for i in range(len(state.holdings)):
        held, price = state.holdings[i], bars[i, CLOSE]
        if held != 0.0 and params.hold_limit > 0 and state.age[i] >= params.hold_limit:
            scratch.orders[i] = -held * params.forced_sale
            state.age[i] = 0
        after = held + scratch.orders[i]
        if scratch.orders[i] * held < 0.0 and abs(after) * price < params.min_order[i]:
            scratch.orders[i] = -held
        elif abs(scratch.orders[i]) * price < params.min_order[i]:
            scratch.orders[i] = 0.0


# --- fills ------------------------------------------------------------------------------------------------------------


def reduce(i: int, units: float, price: float, state: Any, info: Any) -> None:
    """Close so many units of a position, which have its sign: their margin and their gain become free."""
    held, margin = state.holdings[i], state.margin[i]
    info.spent[i] -= units * price
    if units == held:
        state.cash += margin + units * (price - state.entry[i])
        state.holdings[i], state.margin[i], state.entry[i], state.age[i] = 0.0, 0.0, 0.0, 0
    else:
        freed = margin * (units / held)
        state.cash += freed + units * (price - state.entry[i])
        state.holdings[i], state.margin[i] = held - units, margin - freed


def increase(i: int, units: float, price: float, params: Any, state: Any, info: Any) -> None:
    """Open a position, or add to one of the same side."""
    held, value = state.holdings[i], units * price
    margin = abs(value) / params.leverage
    state.entry[i] = (held * state.entry[i] + value) / (held + units)
    state.margin[i] += margin
    state.cash -= margin
    state.holdings[i] = held + units
    info.spent[i] += value


def is_lost(i: int, price: float, params: Any, state: Any) -> bool:
    """Whether the margin of a position and its gain are no more than the maintenance margin."""
    held = state.holdings[i]
    return state.margin[i] + held * (price - state.entry[i]) <= params.margin_call * abs(held) * price


def liquidation_price(i: int, params: Any, state: Any) -> float:
    """The price at which the position is lost."""
    held = state.holdings[i]
    return (held * state.entry[i] - state.margin[i]) / (held - params.margin_call * abs(held))


def liquidate(i: int, price: float, params: Any, state: Any, info: Any) -> None:
    """Close a position by force. The exchange takes its fee of what is left, and bears a loss beyond the margin."""
    held = state.holdings[i]
    traded = abs(held) * price
    left = state.margin[i] + held * (price - state.entry[i])
    fee = min(traded * params.liquidation_fee, max(left, 0.0))
    state.cash += max(left, 0.0) - fee
    info.fees += fee
    info.shortfall += max(-left, 0.0)
    info.spent[i] -= held * price
    info.turnover += traded / state.equity
    info.trades += 1.0
    info.liquidations += 1.0
    state.holdings[i], state.margin[i], state.entry[i], state.age[i] = 0.0, 0.0, 0.0, 0


def volume_left(i: int, state: Any, params: Any, tables: Any) -> float:
    """The units that this account can trade in the bar."""
    return params.volume_share * tables.bars[state.row, i, VOLUME] if params.volume_share > 0.0 else NO_LIMIT


def liquidate_at_the_open(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
    """Positions that a gap has brought beyond their margin; their orders are cancelled."""
    bars = tables.bars[state.row]
    for i in range(len(state.holdings)):
        price = bars[i, OPEN]
        if state.holdings[i] != 0.0 and is_lost(i, price, params, state):
            liquidate(i, price, params, state, info)
            scratch.orders[i], scratch.limited[i] = 0.0, 0.0


def fill_reductions(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
    """Orders against a position close it at the open. What they want beyond that stays an order."""
    bars = tables.bars[state.row]
    for i in range(len(state.holdings)):
        held, order = state.holdings[i], scratch.orders[i]
        scratch.volume[i] = volume_left(i, state, params, tables)
        if order * held < 0.0:
            most = min(abs(held), scratch.volume[i])
            units = min(abs(order), most)
            scratch.orders[i] = 0.0 if units < abs(held) else held + order
            if units > 0.0:
                scratch.volume[i] -= units
                price = bars[i, OPEN]
                reduce(i, units if held > 0.0 else -units, price, state, info)
                state.cash -= pay(i, units * price, params, tables, state, info)


def possible(i: int, scratch: Any) -> float:
    """The units of an order that what is left of the bar's volume allows."""
    return min(max(scratch.orders[i], -scratch.volume[i]), scratch.volume[i])


def margin_and_costs(i: int, traded: float, params: Any, tables: Any, state: Any) -> float:
    """What a trade of this value takes from the free balance, as a part of it."""
    return 1.0 / params.leverage + rate_of_costs(i, params, tables, state) + params.impact * traded / MILLION


def fill_increases(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
    """All orders that open or add are reduced together if the free balance does not suffice for their margins and
    costs."""
    bars = tables.bars[state.row]
    need = 0.0
    for i in range(len(state.holdings)):
        traded = abs(possible(i, scratch)) * bars[i, OPEN]  # no branch: whether there is an order cannot be guessed
        need += traded * margin_and_costs(i, traded, params, tables, state)
    if need <= 0.0 or state.cash <= 0.0:
        return
    scale = min(1.0, state.cash / need)
    for i in range(len(state.holdings)):
        if scratch.orders[i] != 0.0:
            units, price = possible(i, scratch) * scale, bars[i, OPEN]
            traded = abs(units) * price
            if traded >= params.min_order[i] and traded > 0.0:
                scratch.volume[i] -= abs(units)
                increase(i, units, price, params, state, info)
                state.cash -= pay(i, traded, params, tables, state, info)


def watch_margins(state: Any, params: Any, tables: Any, info: Any) -> None:
    """Liquidate what the worst price of the bar brings to its maintenance margin, at the price where that happens."""
    bars = tables.bars[state.row]
    for i in range(len(state.holdings)):
        held = state.holdings[i]
        if held != 0.0 and is_lost(i, bars[i, LOW if held > 0.0 else HIGH], params, state):
            price = liquidation_price(i, params, state)
            opened = bars[i, OPEN]
            liquidate(i, min(price, opened) if held > 0.0 else max(price, opened), params, state, info)


# --- a bar ------------------------------------------------------------------------------------------------------------


def pay_funding(state: Any, params: Any, tables: Any, info: Any) -> None:
    """At the close of bars with a funding time: a position's margin pays or receives, and may be too small then."""
    bars = tables.bars[state.row]
    for i in range(len(state.holdings)):
        held, price = state.holdings[i], bars[i, CLOSE]
        rate = params.funding * bars[i, FUNDING_TIMES] + bars[i, FUNDING]
        if rate != 0.0 and held != 0.0:
            state.margin[i] -= held * price * rate
            info.funding_cost += held * price * rate
            if is_lost(i, price, params, state):
                liquidate(i, price, params, state, info)


def value_account(state: Any, params: Any, tables: Any, info: Any) -> None:
    """At the close: what the account and the equal-weight portfolio are worth."""
    bars = tables.bars[state.row]
    margin, gains, value, exposed, equal_weight = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(state.holdings)):
        held, price = state.holdings[i], bars[i, CLOSE]
        margin += state.margin[i]
        gains += held * (price - state.entry[i])
        value += held * price
        exposed += abs(held) * price
        equal_weight += state.first_units[i] * price
        info.positions[i] = held
        if held != 0.0:
            state.age[i] += 1
    state.equity = state.cash + margin + gains
    state.equal_weight = equal_weight
    state.peak = max(state.peak, state.equity)
    info.equity = state.equity
    info.cash = state.equity - value
    info.free = state.cash
    info.margin = margin
    info.exposure = exposed / max(state.equity, 1e-9)
    info.equal_weight = equal_weight
    info.drawdown = 1.0 - state.equity / state.peak
    info.row = state.row


def fill_open(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
    """Orders that were decided on the last bar fill at the open of the next one, those that close positions first."""
    state.row += 1
    liquidate_at_the_open(state, params, tables, scratch, info)
    fill_reductions(state, params, tables, scratch, info)
    fill_increases(state, params, tables, scratch, info)


def close_bar(before: float, equal_weight: float, state: Any, params: Any, tables: Any, info: Any) -> Any:
    """Funding, values and the reward."""
    pay_funding(state, params, tables, info)
    value_account(state, params, tables, info)
    return reward_of_bar(state, before, equal_weight, params, tables)


def run_bar(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> Any:
    """One bar of an account whose orders fill at the open only."""
    before, equal_weight = state.equity, state.equal_weight
    limit_orders(state, params, tables, scratch)
    fill_open(state, params, tables, scratch, info)
    watch_margins(state, params, tables, info)
    return close_bar(before, equal_weight, state, params, tables, info)


def observe(state: Any, out: Any, tables: Any) -> None:
    """The free balance, and of each coin the value of its position, its gain and its margin, as parts of the account;
    before the features, which the engine copies."""
    share, coins = 1.0 / max(state.equity, 1e-9), len(state.holdings)
    out[0] = state.cash * share
    bars = tables.bars[state.row]
    for i in range(coins):
        price = bars[i, CLOSE]
        out[1 + i] = state.holdings[i] * price * share
        out[1 + coins + i] = state.holdings[i] * (price - state.entry[i]) * share
        out[1 + 2 * coins + i] = state.margin[i] * share
