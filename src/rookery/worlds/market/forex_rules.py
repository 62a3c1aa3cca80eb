"""The rules of the forex world, for one env: what the account is worth after each bar."""

from __future__ import annotations

import math
from typing import Any

from rookery.kernel.random import integer

# Columns of the table `bars`: one row is one line of the processor's cache.
OPEN, CLOSE, RATE_OPEN, RATE_CLOSE, SPREAD, FUNDING, DAY, HOUR = range(8)
# Columns of the table `swaps`, a row per pair: what a position pays per night and unit of the pair's left currency, in
# its right currency; what it pays per year, as a part of its value; the weekday, from Monday, that counts thrice.
LONG_AMOUNT, SHORT_AMOUNT, LONG_RATE, SHORT_RATE, TRIPLE = range(5)
MILLION = 1_000_000.0
DAYS_A_YEAR = 365.0


def trade(state: Any, units: float, params: Any, tables: Any, info: Any) -> None:
    """Fill an order of so many units at the open of the bar in `state.row`, and pay for it."""
    bar = tables.bars[state.row]
    traded = abs(units) * bar[OPEN] * bar[RATE_OPEN]
    info.fees = traded * params.fee
    info.spread_cost = traded * (params.half_spread + bar[SPREAD])
    info.impact_cost = traded * (params.slippage + params.impact * traded / MILLION)
    info.turnover = traded / max(state.equity, 1e-9)
    info.trades = 1.0
    state.equity -= info.fees + info.spread_cost + info.impact_cost
    state.units += units
    state.hour_turnover += info.turnover


def rollovers(day: float, triple: float) -> int:
    """How many nights a broker has charged when this day ends: one on each day from Monday to Friday, and two more on
    one of them, for the weekend. A trading day ends on the next day of the calendar."""
    days = int(day) + 4  # since a Monday: 1970 began on a Thursday
    weeks = days // 7
    weekday = days - 7 * weeks
    return 7 * weeks + min(weekday + 1, 5) + (2 if weekday >= triple else 0)


def swap_of_nights(
    units: float, pair: int, price: float, rate: float, last_day: float, day: float, params: Any, tables: Any
) -> float:
    """What a position pays from one trading day to another, at the last price and rate of the first. Flat rates are
    interest of each day of the calendar; a broker's table is charged as brokers do."""
    side = 0 if units > 0.0 else 1
    size, flat = abs(units), params.swap_long if units > 0.0 else params.swap_short
    value = size * price * rate
    cost = value * flat * (day - last_day) / DAYS_A_YEAR
    amount, a_year = tables.swaps[pair, LONG_AMOUNT + side], tables.swaps[pair, LONG_RATE + side]
    if amount != 0.0 or a_year != 0.0:
        triple = tables.swaps[pair, TRIPLE]
        nights = rollovers(day - 1.0, triple) - rollovers(last_day - 1.0, triple)
        cost += nights * (size * rate * amount + value * a_year / DAYS_A_YEAR)
    return cost


def pay_for_the_night(state: Any, params: Any, tables: Any, info: Any) -> None:
    """Swap on a position that is held while one trading day becomes the next."""
    before, day = tables.bars[state.row - 1], tables.bars[state.row, DAY]
    if day != before[DAY] and state.units != 0.0:
        pair, price, rate = tables.symbol_of[state.row], before[CLOSE], before[RATE_CLOSE]
        info.funding_cost += swap_of_nights(state.units, pair, price, rate, before[DAY], day, params, tables)
        state.equity -= info.funding_cost


def pay_for_the_bar(state: Any, params: Any, tables: Any, info: Any) -> None:
    """Funding, and interest on what is borrowed."""
    bar = tables.bars[state.row]
    value = state.units * bar[CLOSE] * bar[RATE_CLOSE]
    cost = value * (params.funding + bar[FUNDING]) + max(-value, 0.0) * params.borrow * params.bar_years
    info.funding_cost += cost
    state.equity -= cost


def order(state: Any, wanted: float, params: Any, tables: Any) -> float:
    """The units to trade, decided on what is known at `state.row`: 0 if nothing is to be done, or it is not allowed."""
    if state.must_close != 0 or state.paused != 0:
        wanted = 0.0
    elif state.rest > 0:
        return 0.0
    if abs(wanted - state.position) <= params.min_change and not (wanted == 0.0 and state.position != 0.0):
        return 0.0
    bar = tables.bars[state.row]
    price = bar[CLOSE] * bar[RATE_CLOSE]
    units = wanted * params.leverage * max(state.equity, 0.0) / price - state.units
    turnover = abs(units) * price / max(state.equity, 1e-9)
    in_this_hour = state.hour_turnover if bar[HOUR] == state.hour else 0.0
    if state.must_close == 0 and state.paused == 0 and in_this_hour + turnover > params.turnover_cap:
        return 0.0
    state.position = wanted
    return units


def begin_hour_and_day(state: Any, tables: Any) -> None:
    bar = tables.bars[state.row]
    if bar[HOUR] != state.hour:
        state.hour = bar[HOUR]
        state.hour_turnover = 0.0
    if bar[DAY] != state.day:
        state.day = bar[DAY]
        state.day_equity = state.equity
        state.paused = 0


def watch_limits(state: Any, value: float, params: Any) -> float:
    """The drawdown. Below the daily limit the position is closed until the next day; a margin call closes it once."""
    if state.equity < state.day_equity * (1.0 - params.daily_drawdown):
        state.paused = 1
    state.must_close = 1 if value > 0.0 and state.equity < params.margin_call * value else 0
    if state.equity > state.peak:
        state.peak = state.equity
    drawdown = 1.0 - state.equity / state.peak
    if drawdown > state.max_drawdown:
        state.max_drawdown = drawdown
    return drawdown


def choose_rows(state: Any, params: Any, tables: Any) -> None:
    """The first and the last row of an episode: a fixed window, or a random start in a symbol's turn."""
    if params.window >= 0:
        state.row, state.last = tables.windows[params.window, 0], tables.windows[params.window, 1]
    else:
        group = params.symbol if params.symbol >= 0 else (state.seed + state.episode) % len(tables.groups)
        start = integer(state, tables.groups[group, 0], tables.groups[group, 1])
        state.row, state.last = tables.starts[start, 0], tables.starts[start, 1]


def reset(state: Any, params: Any, tables: Any) -> None:
    choose_rows(state, params, tables)
    state.equity = params.initial_balance
    state.peak = params.initial_balance
    state.day_equity = params.initial_balance
    state.day = tables.bars[state.row, DAY]
    state.hour = tables.bars[state.row, HOUR]


def step(state: Any, wanted: float, params: Any, tables: Any, info: Any) -> Any:
    """One bar: the order that was decided on the last bar fills at the open, then the bar runs to its close."""
    before = state.equity
    held = state.position
    units = order(state, wanted, params, tables)
    last_close = tables.bars[state.row, CLOSE]
    state.row += 1
    bar = tables.bars[state.row]
    state.equity += state.units * (bar[OPEN] - last_close) * bar[RATE_OPEN]
    pay_for_the_night(state, params, tables, info)
    begin_hour_and_day(state, tables)
    state.rest = max(state.rest - 1, 0)
    if units != 0.0:
        trade(state, units, params, tables, info)
        state.rest = params.cooldown
    state.equity += state.units * (bar[CLOSE] - bar[OPEN]) * bar[RATE_CLOSE]
    pay_for_the_bar(state, params, tables, info)
    value = abs(state.units) * bar[CLOSE] * bar[RATE_CLOSE]
    drawdown = watch_limits(state, value, params)
    write_info(state, value, before, drawdown, tables, info)
    for k in range(len(state.held) - 1):
        state.held[k] = state.held[k + 1]
    state.held[len(state.held) - 1] = state.position
    reward = (state.equity - before) / params.initial_balance * params.reward_scale
    if state.position != held:
        reward -= params.change_penalty
    terminated = state.equity <= 0.0 or (params.end_on_drawdown != 0 and state.paused != 0)
    truncated = state.row >= state.last
    if terminated or truncated or state.steps + 1 == params.time_limit:
        info.sharpe_ratio = sharpe_ratio(state)
    return reward, terminated, truncated


def write_info(state: Any, value: float, before: float, drawdown: float, tables: Any, info: Any) -> None:
    gain = state.equity / before - 1.0
    state.gains += gain
    state.squares += gain * gain
    info.equity = state.equity
    info.cash = state.equity - (value if state.units > 0.0 else -value)
    info.exposure = value / max(state.equity, 1e-9)
    info.drawdown = drawdown
    info.max_drawdown = state.max_drawdown
    info.position = state.units
    info.row = state.row
    info.symbol = tables.symbol_of[state.row]


def sharpe_ratio(state: Any) -> float:
    """Of the episode: the mean return of its bars over their standard deviation; not annualised."""
    bars = state.steps + 1
    mean = state.gains / bars
    variance = state.squares / bars - mean * mean
    return mean / math.sqrt(variance) if variance > 1e-18 else 0.0


def observe(state: Any, out: Any) -> None:
    """The position that was held at each of the last bars, after their features, which the engine copies."""
    first = len(out) - len(state.held)
    for k in range(len(state.held)):
        out[first + k] = state.held[k]


def window_start(state: Any, tables: Any) -> int:
    """Where the features of the last bars begin."""
    return (state.row - len(state.held) + 1) * tables.width[0]
