"""The forex world against a ledger that is written out here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rookery.errors import DataError, OptionError
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.market.forex import forex, trading_days
from rookery.worlds.market.market_tables import rates_to_account
from worlds.market.forex_accountant import rollovers, wild_pairs
from worlds.market.market_bars import random_bars

COSTS = {
    "fee": 0.0003, "half_spread": 0.0002, "slippage": 0.0001, "impact": 0.002, "swap_long": 0.03, "swap_short": 0.05,
    "funding": 0.00001, "borrow": 0.04, "margin_call": 0.3,
}  # fmt: skip


def make(data: Any = None, **options: Any) -> KernelEnv:
    """One env in plain Python that begins at the first bar."""
    options = {"costs": COSTS, "columns": "noise", "lookback": 3, "window": 0, "time_limit": 0, **options}
    return KernelEnv(forex(data=data if data is not None else random_bars(), **options), plain=True)


def play(env: KernelEnv, actions: Any) -> list[dict[str, Any]]:
    env.reset(seed=1)
    infos = []
    for action in actions:
        _, reward, terminated, truncated, info = env.step(action)
        infos.append({**info, "reward": reward, "terminated": terminated, "truncated": truncated})
        if terminated or truncated:
            break
    return infos


NEW_YORK = 22  # o'clock UTC in winter, when the trading day begins


def test_a_day_begins_at_five_in_new_york_in_summer_too() -> None:
    hours = np.datetime64("2024-03-08", "s").astype(np.int64) + 3600 * np.arange(24 * 5)  # clocks change on the 10th
    begins = hours[np.flatnonzero(np.diff(trading_days(hours)))]
    assert (begins // 3600 % 24).tolist() == [22, 22, 21, 21, 21]


def test_a_feature_with_several_columns_may_be_named_by_its_own_name() -> None:
    world = make(random_bars(), columns=["close", "bbands_20", "macd"]).world
    assert world.market.columns == ("close", "bbands_20_upper", "bbands_20_middle", "bbands_20_lower", "macd")


def test_an_old_rate_of_conversion_is_not_known() -> None:
    data = random_bars(("EURGBP", "GBPUSD"), count=400)
    old = data["GBPUSD"].rows(slice(0, 100))
    at_open, at_close = rates_to_account(data["EURGBP"], replace(data, bars=(data["EURGBP"], old)), "USD")
    assert np.isfinite(at_close[99:200]).all() and np.isnan(at_close[-150:]).all() and np.isnan(at_open[-150:]).all()


def test_the_account_is_what_a_ledger_of_cash_and_units_says() -> None:
    data = random_bars()
    bars = data["EURUSD"]
    env = make(data, cooldown=0, turnover_cap=1e9, daily_drawdown=1.0, leverage=2.0)
    infos = play(env, np.random.default_rng(3).integers(0, 3, 300).tolist())
    assert len(infos) == 300
    cash, units, trades = 100_000.0, 0.0, 0
    for info in infos:
        t = info["row"]
        nights = np.diff(((bars.times[[t - 1, t]] - 1) // 3600 - NEW_YORK) // 24).item()
        carry = abs(units) * bars["close"][t - 1] * (0.03 if units > 0 else 0.05) * nights / 365
        cash -= carry
        traded = info["position"] - units
        value = abs(traded) * bars["open"][t]
        price = bars["open"][t]
        cash -= traded * price + value * (0.0003 + 0.0002 + 0.0001 + 0.002 * value / 1e6)
        units, trades = info["position"], trades + (traded != 0)
        end = units * bars["close"][t]
        paid = end * 0.00001 + max(-end, 0.0) * 0.04 / 365 / 24
        cash -= paid
        assert info["equity"] == pytest.approx(cash + end, rel=1e-12)
        assert info["cash"] == pytest.approx(cash, rel=1e-9, abs=1e-6)
        assert info["fees"] == pytest.approx(value * 0.0003)
        assert info["funding_cost"] == pytest.approx(carry + paid)
    assert trades > 100


def test_an_order_fills_at_the_open_of_the_next_bar_and_its_size_is_decided_before() -> None:
    data = random_bars()
    bars = data["EURUSD"]
    env = make(data, costs="none", change_penalty=0.25)
    (first,) = play(env, [2])
    t = first["row"]
    assert first["position"] == pytest.approx(100_000 / bars["close"][t - 1])
    gain = first["position"] * (bars["close"][t] - bars["open"][t])  # nothing of the jump before the open
    assert first["equity"] == pytest.approx(100_000 + gain)
    assert first["reward"] == pytest.approx(gain / 100_000 * 100 - 0.25)


def test_yen_are_converted_to_dollars_and_a_cross_needs_its_rate() -> None:
    data = random_bars(("USDJPY", "EURGBP", "GBPUSD"))
    yen = data["USDJPY"]
    (info,) = play(make(data, symbols=["USDJPY"], costs="none"), [2])
    t = info["row"]
    assert info["equity"] == pytest.approx(100_000 * (1 + (yen["close"][t] - yen["open"][t]) / yen["close"][t]))
    (cross,) = play(make(data, costs="none", window=1), [2])  # EURGBP earns pounds
    pounds, rate = data["EURGBP"], data["GBPUSD"]["close"]
    t = cross["row"] - 400
    units = 100_000 / (pounds["close"][t - 1] * rate[t - 1])
    assert cross["equity"] == pytest.approx(100_000 + units * (pounds["close"][t] - pounds["open"][t]) * rate[t])
    with pytest.raises(DataError, match=r"EURGBP earns GBP, and the account is in USD: add GBPUSD or USDGBP"):
        make(data.select(["EURGBP"]))


def test_after_a_change_there_is_a_cooldown() -> None:
    env = make(costs="none", cooldown=5)
    infos = play(env, [2, 0, 0, 0, 0, 0, 0, 0])
    assert [np.sign(info["position"]) for info in infos] == [1, 1, 1, 1, 1, 1, -1, -1]
    assert [info["trades"] for info in infos] == [1, 0, 0, 0, 0, 0, 1, 0]


def test_the_daily_drawdown_limit_closes_the_position_until_the_next_day() -> None:
    data = random_bars(move=0.0)
    bars = data["EURUSD"]
    fall = np.where(np.arange(400) >= 6, 0.97, 1.0)
    fallen = bars.with_columns({name: bars[name] * fall for name in ("open", "high", "low", "close")})
    data = type(data)((fallen,), data.timeframe, data.calendar)
    infos = play(make(data, costs="none", cooldown=0, leverage=2.0), [2] * 60)
    hit = next(k for k, info in enumerate(infos) if info["drawdown"] > 0.02)
    assert infos[hit + 1]["position"] == 0
    days = [(fallen.times[info["row"]] - NEW_YORK * 3600 - 1) // 86_400 for info in infos]
    back = next(k for k in range(hit + 1, 60) if infos[k]["position"] > 0)
    assert days[back - 1] == days[hit] + 1  # decided on the first bar of the next day
    ended = play(make(data, costs="none", cooldown=0, leverage=2.0, end_on_drawdown=True), [2] * 60)
    assert ended[-1]["terminated"]
    assert len(ended) == hit + 1


def test_more_turnover_than_the_cap_within_an_hour_is_refused() -> None:
    data = random_bars(timeframe=300, move=0.0)
    infos = play(make(data, costs="none", cooldown=0, turnover_cap=3.5), [2, 0, 2, 0] * 6)
    per_hour: dict[int, float] = {}
    for info in infos:
        hour = int((data["EURUSD"].times[info["row"]] - 1) // 3600)
        per_hour[hour] = per_hour.get(hour, 0.0) + info["turnover"]
    assert max(per_hour.values()) <= 3.5 + 1e-9
    assert sum(info["trades"] for info in infos) >= 3


def test_a_margin_call_closes_the_position_and_ruin_ends_the_episode() -> None:
    data = random_bars(move=0.0)
    bars = data["EURUSD"]
    price = np.where(np.arange(400) >= 6, 0.94, 1.0) * bars["close"]
    columns = {name: price for name in ("open", "high", "low", "close")}
    fallen = type(data)((bars.with_columns(columns),), data.timeframe, data.calendar)
    infos = play(
        make(fallen, leverage=10.0, turnover_cap=1e9, daily_drawdown=1.0, cooldown=0, margin_call=0.05), [2] * 8
    )
    fell = next(k for k, info in enumerate(infos) if info["equity"] < 60_000)
    assert infos[fell]["position"] > 0
    assert infos[fell + 1]["position"] == 0
    columns = {name: np.where(np.arange(400) >= 6, 0.85, 1.0) * bars["close"] for name in columns}
    ruined = type(data)((bars.with_columns(columns),), data.timeframe, data.calendar)
    assert play(make(ruined, leverage=10.0, turnover_cap=1e9, daily_drawdown=1.0, margin_call=0.0), [2] * 8)[-1][
        "terminated"
    ]


def test_the_observation_holds_the_last_bars_with_the_position_held_at_each() -> None:
    data = random_bars()
    env = make(data, costs="none", scaling="power", cooldown=0)
    env.reset(seed=1)
    noise = data["EURUSD"]["noise"]
    power = 2.0 ** -np.round(np.log2(abs(noise[0])))
    for action in (2, 2, 0, 1):
        observation, _, _, _, info = env.step(action)
    t = info["row"]
    assert observation[:3] == pytest.approx(noise[t - 2 : t + 1] * power, rel=1e-6)
    assert observation[3:].tolist() == [1, -1, 0]


def test_an_episode_never_crosses_a_gap_but_a_weekend_is_none() -> None:
    data = random_bars(calendar="forex", count=24 * 14)
    bars = data["EURUSD"]
    weekday = (bars.times // 86_400 + 3) % 7
    open_ = bars.rows(weekday < 5)
    holed = open_.rows(np.delete(np.arange(len(open_)), np.arange(60, 70)))  # ten hours of a Monday
    data = type(data)((holed,), 3600, "forex")
    world = forex(data=data, columns="noise", lookback=3, costs="none")
    assert world.windows.tolist() == [[2, 59], [62, len(holed) - 1]]
    assert np.diff(holed.times[:60]).max() > 3600  # the first window has a weekend in it
    env = KernelEnv(forex(data=data, columns="noise", lookback=3, costs="none", time_limit=20), plain=True)
    for seed in range(20):
        env.reset(seed=seed)
        rows = []
        while True:
            _, _, _, truncated, info = env.step(2)
            rows.append(info["row"])
            if truncated:
                break
        assert 59 not in rows[:-1]
        assert len(rows) <= 20


def test_splits_share_no_bar_and_keep_an_embargo() -> None:
    data = random_bars(count=1000)
    spans = [
        forex(data=data, columns="noise", lookback=4, split=split).windows for split in ("train", "validation", "test")
    ]
    (train,), (validation,), (test,) = spans
    assert train[1] + 4 <= validation[0]
    assert validation[1] + 4 <= test[0]
    assert test[1] == 999
    ranges = forex(data=data, columns="noise", lookback=4, split=[[100, 200], [300, 400]]).windows
    assert ranges.tolist() == [[100, 199], [300, 399]]
    with pytest.raises(OptionError, match="split should be one of all, train, validation, test"):
        forex(data=data, split="tests")


def test_symbols_follow_each_other_and_an_env_can_be_held_to_one() -> None:
    data = random_bars(("EURUSD", "GBPUSD", "USDJPY"), count=100)
    env = KernelEnv(forex(data=data, columns="noise", lookback=3, time_limit=5), plain=True)
    seen = []
    env.reset(seed=5)
    for _ in range(6):
        env.reset()
        seen.append(env.step(0)[4]["symbol"])
    assert seen[:3] == seen[3:]
    assert sorted(seen[:3]) == [0, 1, 2]
    env.set_parameters(symbol=1)
    for _ in range(4):
        env.reset()
        assert env.step(0)[4]["symbol"] == 1


def test_the_continuous_form_rebalances_beyond_a_small_change() -> None:
    env = make(costs="none", action_type="continuous", cooldown=0, min_change=0.1)
    infos = play(env, [np.array([wanted], np.float32) for wanted in (0.5, 0.55, -0.5, 0.0)])
    assert [info["trades"] for info in infos] == [1, 0, 1, 1]
    assert infos[-1]["position"] == 0


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"fee": 0.001}, "half_spread, slippage, .* not given"),
        ("ecn", r"there is no preset 'ecn'"),
        ({"preset": "none", "fees": 0.1}, "there is no kind 'fees'; did you mean 'fee'"),
        ({"preset": "none", "fee": 25}, "fee should be a part of the value"),
        ({"preset": "none", "fee": [0.1, 0.2]}, "forex has one fee for all symbols"),
        (3, "costs should be one of"),
    ],
)
def test_costs_that_are_not_complete_are_refused(costs: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make(costs=costs)


def test_costs_from_the_data_need_their_column() -> None:
    with pytest.raises(DataError, match="EURUSD: the costs take 'funding' from the data, which have no such column"):
        make(costs={"preset": "none", "funding": "data"})
    data = random_bars(funding=0.001, spread=0.002)
    (info,) = play(make(data, costs={"preset": "none", "funding": "data", "half_spread": "data"}), [2])
    close, open_ = (data["EURUSD"][name][info["row"]] for name in ("close", "open"))
    assert info["funding_cost"] == pytest.approx(info["position"] * close * 0.001)
    assert info["spread_cost"] == pytest.approx(info["position"] * open_ * 0.002)


@pytest.mark.parametrize("option", ["leverage", "initial_balance", "fee", "half_spread", "slippage"])
@pytest.mark.parametrize("value", [-0.5, float("nan"), float("inf")])
def test_options_that_no_account_has_are_refused(option: str, value: float) -> None:
    """A negative fee would pay for each order, and a negative leverage sells what should be bought."""
    with pytest.raises(OptionError, match=f"forex: {option} should be"):
        make(**{option: value})


@pytest.mark.parametrize(("column", "message"), [({"funding": 0.01}, "fraction"), ({"spread": 0.02}, "median spread")])
def test_costs_from_the_data_in_another_unit_are_refused(column: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make(random_bars(**{"funding": 0.0, "spread": 0.0, **column}),
             costs={"preset": "none", "funding": "data", "half_spread": "data"})  # fmt: skip


def test_a_bar_whose_spread_can_only_be_an_error_is_refused() -> None:
    """The median of the others does not show it, and a trade at that bar would pay all of it."""
    data = random_bars(spread=0.0001)
    data["EURUSD"]["spread"][7] = 3.0
    with pytest.raises(DataError, match=r"EURUSD row 7: the spread is 600 %"):
        make(data, costs={"preset": "none", "half_spread": "data"})


@pytest.mark.slow
def test_a_brokers_table_charges_each_night_and_three_of_them_on_wednesdays() -> None:
    """At five in New York, which is another hour of UTC after the clocks change; nothing for the weekend itself."""
    data = wild_pairs(("EURUSD",), 1500, hours=1)
    table = {"EURUSD": {"swap_long": -7.2, "swap_short": 2.1, "swap_unit": "points"}}
    bars = data["EURUSD"]
    for action, points in ((2, 7.2), (0, -2.1)):
        free = {"costs": "none", "cooldown": 0, "turnover_cap": 1e9, "daily_drawdown": 1.0, "min_change": 0.9}
        infos = play(make(data, broker=table, **free), [action] * 1400)
        assert len(infos) > 1300
        units, nights, at_mondays = abs(infos[0]["position"]), 0, []
        for info in infos[1:]:
            days = rollovers(*bars.times[[info["row"] - 1, info["row"]]].tolist())
            due = sum({"wednesday": 3, "saturday": 0, "sunday": 0}.get(day, 1) for day in days)
            assert info["funding_cost"] == pytest.approx(units * points * 1e-5 * due)
            nights += due
            at_mondays += [nights] if "monday" in days else []
        assert len(at_mondays) > 10 and set(np.diff(at_mondays)) == {7}


def test_pounds_become_dollars_through_euros() -> None:
    data = random_bars(("EURGBP", "EURUSD"), count=50)
    at_open, at_close = rates_to_account(data["EURGBP"], data, "USD")
    closes = data["EURUSD"]["close"] / data["EURGBP"]["close"]
    assert at_close == pytest.approx(closes) and at_open[1:] == pytest.approx(closes[:-1])
    more = random_bars(("EURGBP", "EURUSD", "GBPUSD"), count=50)
    _, direct = rates_to_account(data["EURGBP"], data, "USD", lambda: more)
    assert direct.tolist() == more["GBPUSD"]["close"].tolist()
