"""The crypto world against a ledger that is written out here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rookery.errors import DataError, OptionError
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.market.crypto import crypto
from worlds.market.market_bars import random_bars

COINS = ("BTC/USD", "ETH/USD", "SOL/USD")
COSTS = {"preset": "none", "fee": 0.002, "half_spread": 0.001, "slippage": 0.0005, "impact": 0.01, "funding": 0.0001}


def make(data: Any = None, **options: Any) -> KernelEnv:
    """One env in plain Python that begins at the first bar."""
    options = {"costs": COSTS, "columns": "noise", "lookback": 3, "window": 0, "time_limit": 0, **options}
    return KernelEnv(crypto(data=data if data is not None else random_bars(COINS), **options), plain=True)


def play(env: KernelEnv, actions: Any) -> list[dict[str, Any]]:
    env.reset(seed=1)
    infos = []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(np.asarray(action, np.float32))
        infos.append({**info, "reward": reward, "ended": terminated or truncated, "observation": observation})
        if terminated or truncated:
            break
    return infos


def prices(data: Any, column: str) -> np.ndarray:
    return np.stack([bars[column] for bars in data.bars], axis=1)


@pytest.mark.few(1)
@pytest.mark.parametrize("action_type", ["orders", "weights"])
def test_cash_and_holdings_are_what_a_ledger_says(action_type: str) -> None:
    data = random_bars(COINS)
    opens, closes = prices(data, "open"), prices(data, "close")
    actions = np.random.default_rng(3).uniform(-1, 1, (300, 3))
    infos = play(make(data, action_type=action_type), actions)
    assert len(infos) == 300
    cash, held, paid, debt = 100_000.0, np.zeros(3), 0.0, 0.0
    for info in infos:
        t, trades = info["row"], info["positions"] - held
        value = abs(trades) * opens[t]
        costs = np.sum(value * (0.002 + 0.001 + 0.0005 + 0.01 * value / 1e6))
        held = info["positions"]
        funding = np.sum(held * closes[t]) * 0.0001
        cash -= np.sum(trades * opens[t]) + costs + funding
        paid += costs + funding
        debt += funding
        assert info["cash"] == pytest.approx(cash, abs=1e-6)
        assert info["equity"] == pytest.approx(cash + held @ closes[t], rel=1e-12)
        assert info["fees"] + info["spread_cost"] + info["impact_cost"] == pytest.approx(costs)
        assert info["trades"] == np.count_nonzero(trades)
        assert held.min() >= 0
        assert cash >= -debt - 1e-6  # nothing is borrowed to buy, but funding may have to be paid without cash
    assert paid > 1000


def test_orders_are_decided_on_the_close_and_fill_at_the_next_open_sales_first() -> None:
    data = random_bars(COINS)
    opens, closes = prices(data, "open"), prices(data, "close")
    env = make(data, costs="none", max_order=1.0, hold_limit=0)
    first, second = play(env, [[1, 0, 0], [-1, 1, 0]])
    t = first["row"]
    asked = 100_000 / closes[t - 1, 0]
    assert first["positions"][0] == pytest.approx(min(asked, 100_000 / opens[t, 0]))
    got = first["positions"][0] * opens[t + 1, 0] + first["cash"]  # the sale pays for the purchase of the same bar
    asked = second["positions"][1] * opens[t + 1, 1]
    assert second["positions"][0] == 0
    assert asked == pytest.approx(min(got, first["equity"] / closes[t, 1] * opens[t + 1, 1]))


def test_purchases_share_the_cash_and_the_observation_shows_the_portfolio() -> None:
    data = random_bars(COINS)
    (info,) = play(make(data, max_order=1.0), [[1, 1, 0.5]])
    value = info["positions"] * prices(data, "open")[info["row"]]
    closes = prices(data, "close")[info["row"] - 1]
    wanted = prices(data, "open")[info["row"]] / closes * [1, 1, 0.5]
    assert value / value.sum() == pytest.approx(wanted / wanted.sum())
    assert info["cash"] < 200  # all is spent, but for the costs that large orders would have had
    weights = info["positions"] * prices(data, "close")[info["row"]] / info["equity"]
    assert info["observation"][:4] == pytest.approx([info["cash"] / info["equity"], *weights], abs=1e-6)
    assert info["observation"].shape == (1 + 3 + 3 * 3,)


def test_small_orders_are_not_made_and_small_rests_are_sold() -> None:
    infos = play(make(costs="none", min_order=[500.0, 100.0, 100.0], max_order=0.01), [[0.4, 0.2, 0]])
    assert infos[0]["positions"][0] == 0  # 400, less than 500
    assert infos[0]["positions"][1] > 0
    infos = play(make(costs="none", min_order=500.0, max_order=0.01, hold_limit=0), [[1, 0, 0], [-0.8, 0, 0]])
    assert infos[1]["positions"][0] == 0  # the rest would be worth 200


def test_what_is_held_for_long_is_sold_in_part() -> None:
    env = make(costs="none", hold_limit=5, forced_sale=0.5, min_order=0.0)
    infos = play(env, [[1, 0, 0], *[[0, 0, 0]] * 12])
    units = np.array([info["positions"][0] for info in infos])
    changes = np.flatnonzero(np.diff(units)) + 1
    assert changes.tolist() == [5, 10]
    assert units[5] == pytest.approx(units[0] / 2)


def test_the_reward_is_the_gain_over_an_equal_weight_portfolio_and_optional_terms() -> None:
    data = random_bars(COINS)
    closes = prices(data, "close")
    actions = np.random.default_rng(5).uniform(-1, 1, (50, 3))
    plain = play(make(data), actions)
    shaped = play(
        make(
            data, absolute_reward=2.0, cash_reward=0.1, concentration_penalty=0.3, few_positions_penalty=0.2,
            min_positions=2, concentration_limit=0.25,
        ),
        actions,
    )  # fmt: skip
    before, start = 100_000.0, plain[0]["row"] - 1
    for info, other in zip(plain, shaped, strict=True):
        t = info["row"]
        market = 100_000 * (closes[t] / closes[start]).mean()
        market_before = 100_000 * (closes[t - 1] / closes[start]).mean()
        gain = (info["equity"] - before) / 100_000
        assert info["equal_weight"] == pytest.approx(market)
        assert info["reward"] == pytest.approx(100 * (gain - (market - market_before) / 100_000), abs=1e-9)
        weights = info["positions"] * closes[t] / info["equity"]
        terms = 2.0 * gain + 0.1 * info["cash"] / info["equity"] - 0.3 * np.maximum(weights - 0.25, 0).sum()
        terms -= 0.2 * max(2 - np.count_nonzero(weights > 0.01), 0) / 2
        assert other["reward"] - info["reward"] == pytest.approx(100 * terms, abs=1e-9)
        before = info["equity"]


def test_assets_are_aligned_where_all_have_a_bar_and_gaps_split_windows() -> None:
    data = random_bars(COINS, count=100)
    missing = data.bars[1].rows(np.delete(np.arange(100), [40, 41]))
    data = type(data)((data.bars[0], missing, data.bars[2]), data.timeframe)
    world = crypto(data=data, columns="noise", lookback=3)
    assert world.windows.tolist() == [[2, 39], [42, 97]]
    assert len(world.market.times) == 98


def test_fees_may_differ_by_asset() -> None:
    costs = {"preset": "none", "fee": [0.0, 0.01, 0.02]}
    infos = [play(make(costs=costs), [np.eye(3)[i]])[0] for i in range(3)]
    assert [info["fees"] / (info["turnover"] * 100_000) for info in infos] == pytest.approx([0.0, 0.01, 0.02])
    with pytest.raises(OptionError, match="fee has 2 numbers for 3 assets"):
        make(costs={"preset": "none", "fee": [0.0, 0.01]})


@pytest.mark.parametrize(
    ("symbols", "message"),
    [(("BTC/USD", "ETH/EUR"), "priced in different currencies")],
)
def test_assets_in_two_currencies_are_refused(symbols: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make(random_bars(symbols))


def test_the_layout_of_finrl_has_cash_closes_holdings_and_each_indicator_for_all_assets() -> None:
    data = random_bars(COINS)
    infos = play(make(data, layout="finrl", columns="noise,volume", lookback=1), [[1, 0, 0], [0, 1, 0]])
    info = infos[-1]
    t = info["row"]
    wanted = [info["cash"], *prices(data, "close")[t], *info["positions"], *prices(data, "noise")[t]]
    assert info["observation"] == pytest.approx([*wanted, *prices(data, "volume")[t]], rel=1e-6)
    assert info["reward"] == pytest.approx(1e-4 * (info["equity"] - infos[0]["equity"]))
