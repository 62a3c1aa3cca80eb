"""The rules of the crypto world, for one env: orders, fills, and what the portfolio is worth after each bar."""

from __future__ import annotations

from typing import Any

from rookery.kernel.random import integer

OPEN, CLOSE, SPREAD, FUNDING = range(4)  # columns of the table `bars`, per asset
MILLION = 1_000_000.0


def reset(state: Any, params: Any, tables: Any) -> None:
    if params.window >= 0:
        state.row, state.last = tables.windows[params.window, 0], tables.windows[params.window, 1]
    else:
        start = integer(state, 0, len(tables.starts))
        state.row, state.last = tables.starts[start, 0], tables.starts[start, 1]
    state.cash = params.initial_balance
    state.equity = params.initial_balance
    state.equal_weight = params.initial_balance
    state.peak = params.initial_balance
    for i in range(len(state.holdings)):
        state.first_units[i] = params.initial_balance / len(state.holdings) / tables.bars[state.row, i, CLOSE]


def order_parts(state: Any, action: Any, params: Any, tables: Any, scratch: Any) -> None:
    """Orders in units from actions that buy or sell a part of the portfolio's value."""
    for i in range(len(state.holdings)):
        part = min(max(action[i], -1.0), 1.0) * params.max_order
        scratch.orders[i] = part * state.equity / tables.bars[state.row, i, CLOSE]


def weight(action: float) -> float:
    """From -1 to 1, to 0 to 1."""
    return min(max(action + 1.0, 0.0), 2.0) / 2.0


def order_weights(state: Any, action: Any, params: Any, tables: Any, scratch: Any) -> None:
    """Orders in units from actions that are the wanted weights: -1 is nothing, and if they sum to more than 1 they are
    reduced together."""
    total = 0.0
    for i in range(len(state.holdings)):
        total += weight(action[i])
    scale = state.equity / max(total, 1.0)
    for i in range(len(state.holdings)):
        price = tables.bars[state.row, i, CLOSE]
        change = weight(action[i]) * scale - state.holdings[i] * price
        scratch.orders[i] = change / price if abs(change) > params.min_change * state.equity else 0.0


def limit_sales(state: Any, params: Any, tables: Any, scratch: Any) -> None:
    """Nothing is sold that is not held. What is held for long is sold in part; a rest that is too small, with it."""
    for i in range(len(state.holdings)):  # choices without branches, which would be guessed wrong half of the time
        order, held, price = scratch.orders[i], state.holdings[i], tables.bars[state.row, i, CLOSE]
        sale = min(max(-order, 0.0), held)
        if params.hold_limit > 0 and state.age[i] >= params.hold_limit and held > 0.0:
            sale = max(sale, held * params.forced_sale)
            state.age[i] = 0
        sells = sale > 0.0
        sale = held if sells & ((held - sale) * price < params.min_order[i]) else sale
        value = (sale if sells else order) * price
        too_small = (value < params.min_order[i]) & ((not sells) | (sale < held))
        scratch.orders[i] = 0.0 if too_small else (-sale if sells else order)


def pay(i: int, traded: float, params: Any, tables: Any, state: Any, info: Any) -> float:
    """The costs of a trade of this value."""
    fee = traded * params.fee[i]
    spread = traded * (params.half_spread + tables.bars[state.row, i, SPREAD])
    impact = traded * (params.slippage + params.impact * traded / MILLION)
    info.fees += fee
    info.spread_cost += spread
    info.impact_cost += impact
    info.turnover += traded / state.equity
    info.trades += 1.0
    return fee + spread + impact


def rate_of_costs(i: int, params: Any, tables: Any, state: Any) -> float:
    """The costs of a trade as a part of its value, without impact."""
    return params.fee[i] + params.half_spread + tables.bars[state.row, i, SPREAD] + params.slippage


def fill_sales(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
    for i in range(len(state.holdings)):
        if scratch.orders[i] < 0.0:
            traded = -scratch.orders[i] * tables.bars[state.row, i, OPEN]
            state.cash += traded - pay(i, traded, params, tables, state, info)
            state.holdings[i] += scratch.orders[i]
            if state.holdings[i] <= 0.0:
                state.age[i] = 0


def fill_purchases(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
    """All purchases are reduced together if the cash does not suffice for them and their costs."""
    need = 0.0
    for i in range(len(state.holdings)):
        if scratch.orders[i] > 0.0:
            traded = scratch.orders[i] * tables.bars[state.row, i, OPEN]
            rate = rate_of_costs(i, params, tables, state)
            need += traded * (1.0 + rate + params.impact * traded / MILLION)
    if need <= 0.0 or state.cash <= 0.0:  # funding may leave a small debt
        return
    scale = min(1.0, state.cash / need)
    for i in range(len(state.holdings)):
        if scratch.orders[i] > 0.0:
            units = scratch.orders[i] * scale
            traded = units * tables.bars[state.row, i, OPEN]
            if traded >= params.min_order[i] and traded > 0.0:
                state.cash -= traded + pay(i, traded, params, tables, state, info)
                state.holdings[i] += units
    state.cash = max(state.cash, 0.0)  # rounding may leave -1e-12


def value_portfolio(state: Any, params: Any, tables: Any, info: Any) -> None:
    """At the close: funding, the portfolio's value, the equal-weight portfolio's, and how long assets are held."""
    invested, equal_weight, funding = 0.0, 0.0, 0.0
    for i in range(len(state.holdings)):
        price = tables.bars[state.row, i, CLOSE]
        value = state.holdings[i] * price
        funding += value * (params.funding + tables.bars[state.row, i, FUNDING])
        invested += value
        equal_weight += state.first_units[i] * price
        info.positions[i] = state.holdings[i]
        if state.holdings[i] > 0.0:
            state.age[i] += 1
    state.cash -= funding
    state.equity = state.cash + invested
    state.equal_weight = equal_weight
    state.peak = max(state.peak, state.equity)
    info.funding_cost = funding
    info.equity = state.equity
    info.cash = state.cash
    info.exposure = invested / max(state.equity, 1e-9)
    info.equal_weight = equal_weight
    info.drawdown = 1.0 - state.equity / state.peak
    info.row = state.row


def shaping(state: Any, gain: float, params: Any, tables: Any) -> float:
    """The optional terms of the reward: absolute return, cash, concentration, too few positions."""
    excess, positions = 0.0, 0
    if params.concentration_penalty != 0.0 or params.few_positions_penalty != 0.0:  # else no division per asset
        for i in range(len(state.holdings)):
            share = abs(state.holdings[i]) * tables.bars[state.row, i, CLOSE] / max(state.equity, 1e-9)
            excess += max(share - params.concentration_limit, 0.0)
            if share > params.position_weight:
                positions += 1
    cash = state.cash / max(state.equity, 1e-9)
    few = max(params.min_positions - positions, 0) / max(params.min_positions, 1)
    return (
        params.absolute_reward * gain
        + params.cash_reward * cash
        - params.concentration_penalty * excess
        - params.few_positions_penalty * few
    )


def reward_of_bar(state: Any, before: float, equal_weight: float, params: Any, tables: Any) -> Any:
    """The reward for a bar that has been valued, and how the episode ends. `before` and `equal_weight` are what the
    account and the equal-weight portfolio were worth at its beginning."""
    gain = (state.equity - before) / params.initial_balance
    market = (state.equal_weight - equal_weight) / params.initial_balance
    reward = (gain - params.benchmark_weight * market) * params.reward_scale
    reward += shaping(state, gain, params, tables) * params.reward_scale
    return reward, state.equity < params.stop_below * params.initial_balance, state.row >= state.last


def run_bar(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> Any:
    """One bar: orders that were decided on the last bar fill at its open, sales first; it is valued at its close."""
    before, equal_weight = state.equity, state.equal_weight
    limit_sales(state, params, tables, scratch)
    state.row += 1
    fill_sales(state, params, tables, scratch, info)
    fill_purchases(state, params, tables, scratch, info)
    value_portfolio(state, params, tables, info)
    return reward_of_bar(state, before, equal_weight, params, tables)


def observe(state: Any, out: Any, tables: Any) -> None:
    """The part of cash and of each asset in the portfolio, before the features, which the engine copies."""
    share = 1.0 / max(state.equity, 1e-9)
    out[0] = state.cash * share
    for i in range(len(state.holdings)):
        out[1 + i] = state.holdings[i] * tables.bars[state.row, i, CLOSE] * share


def observe_finrl(state: Any, out: Any, tables: Any) -> None:
    """Cash, closes and holdings, before the features."""
    assets = len(state.holdings)
    out[0] = state.cash
    for i in range(assets):
        out[1 + i] = tables.bars[state.row, i, CLOSE]
        out[1 + assets + i] = state.holdings[i]


def window_start(state: Any, tables: Any) -> int:
    """Where the features of the last bars begin."""
    return (state.row + 1) * tables.width[0] - tables.width[1]
