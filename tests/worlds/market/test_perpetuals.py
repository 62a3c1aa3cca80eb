"""What the perpetuals world does in single cases, on bars made for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import rookery
from rookery.data.dataset import Bars, Dataset
from rookery.engine.cuda import CudaEngine
from rookery.engine.env_factory import resolve
from rookery.engine.settings import Settings, autoreset
from rookery.errors import DataError, OptionError
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.market.crypto import crypto
from rookery.worlds.market.perpetuals import perpetuals
from worlds.market.market_bars import START, random_bars
from worlds.market.perpetual_accountant import wild_bars

FREE = {"preset": "none", "margin_call": 0.005}


def coin(*bars: tuple[float, float, float, float], symbol: str = "BTC/USDT", **columns: list[float]) -> Dataset:
    """Bars of open, high, low and close after two at 100; the account decides for the first time after the second."""
    table = np.array([(100.0, 100.0, 100.0, 100.0)] * 2 + list(bars))
    made = dict(zip(("open", "high", "low", "close"), table.T, strict=True))
    made["volume"] = np.array([1e9, 1e9, *columns.pop("volume", [1e9] * len(bars))])
    made |= {name: np.array([0.0, 0.0, *values]) for name, values in columns.items()}
    return Dataset((Bars(symbol, START + 3600 * np.arange(1, len(table) + 1), made),), 3600, "24/7")


def play(world: Any, *actions: Any) -> list[dict[str, Any]]:
    env = KernelEnv(world, plain=True)
    env.reset(seed=1)
    infos = []
    for action in actions:
        observation, reward, terminated, _, info = env.step(np.array(action, np.float32))
        infos.append({**info, "reward": reward, "terminated": terminated, "observation": observation})
    return infos


def perpetual(data: Any, **options: Any) -> Any:
    given = {"costs": FREE, "columns": "close", "lookback": 1, "window": 0, "time_limit": 0, "leverage": 10.0}
    return perpetuals(data=data, **{**given, "funding_hours": 0, **options})


def bracket(weight: float, limit: float = 0.0, stop: float = 0.0, profit: float = 0.0) -> list[float]:
    """The action of one coin, with distances as parts of the price."""
    return [weight, limit / 0.1, stop / 0.1, profit / 0.1]


def inside(*bars: tuple[float, float, float, float], rule: str = "worst", **options: Any) -> Any:
    data = coin(*bars, volume=options.pop("volume", [1e9] * len(bars)))
    return perpetual(data, action_type="brackets", widest_order=0.1, inside_bar=rule, **options)


FLAT = (100.0, 100.0, 100.0, 100.0)


# --- the account ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "close"), [(1.0, 103.0), (-1.0, 97.0)])
def test_a_position_earns_its_leverage_and_lends_its_margin(side: float, close: float) -> None:
    world = perpetual(coin(FLAT, (100.0, max(close, 100), min(close, 100), close)), leverage=10.0)
    first, second = play(world, [side * 0.5], [side * 0.5])
    assert first["positions"][0] == side * 5_000  # half of ten times the account
    assert (first["margin"], first["free"]) == (50_000, 50_000)
    assert second["equity"] == 100_000 + 5_000 * 3
    assert second["cash"] + second["positions"][0] * close == pytest.approx(second["equity"])


def test_a_liquidation_takes_the_margin_of_its_position_only() -> None:
    """A long position with a leverage of 10 is lost at (100 - 10) / (1 - 0.005)."""
    fall = (100.0, 100.0, 80.0, 95.0)
    both = [coin(FLAT, fall, symbol=name).bars[0] for name in ("BTC/USDT", "ETH/USDT")]
    world = perpetual(Dataset(tuple(both), 3600, "24/7"), costs={**FREE, "liquidation_fee": 0.001})
    _, lost = play(world, [0.5, -0.25], [0.5, -0.25])
    price = 90 / 0.995
    left = 0.5 * 100_000 + 5_000 * (price - 100) - 0.001 * 5_000 * price
    assert lost["liquidations"] == 1 and lost["positions"].tolist() == [0, -2_500]
    assert lost["fees"] == pytest.approx(5 * price)
    assert lost["equity"] == pytest.approx(50_000 + left + 2_500 * 5)


def test_a_gap_beyond_the_margin_costs_no_more_than_the_margin_and_cancels_the_order() -> None:
    gap = (70.0, 75.0, 70.0, 75.0)
    _, lost = play(perpetual(coin(FLAT, gap)), [0.5], [-0.5])
    assert lost["equity"] == 50_000 and lost["shortfall"] == 5_000 * 30 - 50_000
    assert lost["positions"][0] == 0


def test_funding_is_paid_at_its_times_from_the_margin_and_received_by_shorts() -> None:
    data = random_bars(("BTC/USDT",), count=60, move=0.001)
    long, short = (
        play(perpetual(data, costs={**FREE, "funding": 0.001}, funding_hours=8), *[[side]] * 50) for side in (0.1, -0.1)
    )
    times = [int(data.bars[0].times[info["row"]]) for info in long]
    assert [time % 28_800 == 0 for time in times] == [info["funding_cost"] != 0 for info in long]
    for one, other in zip(long, short, strict=True):
        assert one["funding_cost"] >= 0 >= other["funding_cost"]
    paid = next(info for info in long if info["funding_cost"])
    close = data.bars[0]["close"][paid["row"]]
    assert paid["funding_cost"] == pytest.approx(0.001 * paid["positions"][0] * close)


def test_funding_alone_can_liquidate() -> None:
    data = coin(FLAT, FLAT, funding=[0.0, 0.004])
    infos = play(perpetual(data, costs={**FREE, "funding": "data"}, leverage=190.0), [0.1], [0.1])
    assert [info["liquidations"] for info in infos] == [0, 1]


def test_all_that_open_share_the_free_balance_and_pay_their_costs_of_it() -> None:
    world = perpetual(coin(FLAT), costs={**FREE, "fee": 0.01})
    (info,) = play(world, [1.0])
    assert info["free"] == pytest.approx(0.0, abs=1e-6)
    assert info["margin"] + info["fees"] == pytest.approx(100_000)
    assert info["positions"][0] == pytest.approx(100_000 / 100 / (0.1 + 0.01))


def test_what_is_held_for_long_is_closed() -> None:
    infos = play(perpetual(coin(*[FLAT] * 5), hold_limit=3), *[[-0.5]] * 5)
    assert [info["positions"][0] != 0 for info in infos] == [True, True, True, False, True]


def test_an_order_takes_only_a_part_of_the_volume() -> None:
    data = coin(FLAT, FLAT, FLAT, volume=[10_000.0, 10_000.0, 500.0])
    infos = play(perpetual(data, volume_share=0.1), [0.25], [0.25], [-0.25])
    assert [info["positions"][0] for info in infos] == [1_000, 2_000, 1_950]


def test_the_observation_has_the_account_first() -> None:
    _, info = play(perpetual(coin(FLAT, (100.0, 105.0, 100.0, 104.0))), [0.5], [0.5])
    equity = 120_000
    wanted = [50_000 / equity, 5_000 * 104 / equity, 20_000 / equity, 50_000 / equity]
    assert info["observation"][:4] == pytest.approx(wanted, rel=1e-6)


# --- orders inside the bar --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "price"), [("worst", 98.0), ("low-first", 98.0), ("high-first", 103.0)], ids=["worst", "low", "high"]
)
def test_which_of_stop_and_profit_comes_first_is_as_the_rule_says(rule: str, price: float) -> None:
    """The bar has reached both. The opposite position has the opposite fate, but in the worst case."""
    world = inside((100.0, 105.0, 95.0, 101.0), rule=rule)
    (info,) = play(world, bracket(0.1, stop=0.02, profit=0.03))
    assert info["positions"][0] == 0 and info["equity"] == pytest.approx(100_000 + 1_000 * (price - 100))
    (short,) = play(world, bracket(-0.1, stop=0.02, profit=0.03))
    theirs = {"worst": 102.0, "low-first": 97.0, "high-first": 102.0}[rule]
    assert short["equity"] == pytest.approx(100_000 - 1_000 * (theirs - 100))


def test_a_stop_that_the_open_has_passed_fills_at_the_open() -> None:
    _, info = play(inside(FLAT, (95.0, 99.0, 94.0, 99.0)), bracket(0.1, stop=0.02), bracket(0.1, stop=0.02))
    assert info["spent"][0] == pytest.approx(-95.0 * 1_000) and info["positions"][0] == 0


def test_a_limit_order_fills_beyond_its_price_pays_as_a_maker_and_lasts_for_one_bar() -> None:
    costs = {**FREE, "fee": 0.001, "maker_fee": 0.0002, "half_spread": 0.01}
    touched, beyond = (
        play(inside((100.0, 100.0, low, 100.0), FLAT, costs=costs), bracket(0.1, limit=0.01), bracket(0.0))
        for low in (99.0, 98.9)
    )
    assert [info["trades"] for info in touched] == [0, 0]
    assert beyond[0]["spent"][0] == pytest.approx(99.0 * 1_000)
    assert beyond[0]["fees"] == pytest.approx(0.0002 * 99 * 1_000) and beyond[0]["spread_cost"] == 0


def test_in_the_worst_case_a_limit_order_takes_no_profit_in_its_bar() -> None:
    bar = (100.0, 104.0, 98.0, 103.0)
    order = bracket(0.1, limit=0.01, profit=0.02)
    (worst,), (low,) = (play(inside(bar, rule=rule), order) for rule in ("worst", "low-first"))
    assert worst["positions"][0] == pytest.approx(1_000)
    assert low["positions"][0] == 0 and low["equity"] == pytest.approx(100_000 + 1_000 * 99 * 0.02)


def test_a_stop_that_the_volume_leaves_open_is_liquidated_where_its_margin_ends() -> None:
    world = inside(FLAT, (100.0, 100.0, 80.0, 90.0), volume=[1e9, 100.0], volume_share=1.0)
    _, info = play(world, bracket(0.5, stop=0.02), bracket(0.5, stop=0.02))
    stopped, lost = 100 * 98, 4_900 * 90 / 0.995
    assert info["liquidations"] == 1 and info["spent"][0] == pytest.approx(-(stopped + lost))


def test_coins_without_credit_take_the_same_orders_and_are_never_short() -> None:
    options = {"costs": "none", "columns": "close", "lookback": 1, "window": 0, "time_limit": 0, "widest_order": 0.1}
    world = crypto(data=coin(FLAT, (100.0, 105.0, 95.0, 101.0)), action_type="brackets", **options)
    first, stopped = play(world, [0.0, 0.0, 0.2, 0.3], [0.0, 0.0, 0.2, 0.3])
    assert first["positions"][0] == 500 and first["cash"] == 50_000
    assert stopped["positions"][0] == 0 and stopped["equity"] == pytest.approx(100_000 - 500 * 2)
    (nothing,) = play(world, [-1.0, 0.0, 0.0, 0.0])
    assert nothing["trades"] == 0
    with pytest.raises(OptionError, match="leverage"):
        crypto(data=random_bars(("BTC/USD",)), action_type="brackets", leverage=3.0)


# --- the same numbers everywhere --------------------------------------------------------------------------------------


def random_world(action_type: str) -> Any:
    options = {"inside_bar": "worst", "widest_order": 0.03, "volume_share": 0.1} if action_type == "brackets" else {}
    return perpetuals(
        data=wild_bars(("BTC/USDT", "ETH/USDT"), 400), costs="usdt-perpetuals", columns="noise", lookback=2,
        leverage=20.0, action_type=action_type, time_limit=30, **options,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("action_type", ["weights", "brackets"])
def test_the_code_for_gpus_gives_the_same_numbers(action_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU: its kernel's body in plain Python, in the engine that launches it."""
    monkeypatch.setattr("rookery.kernel.runner.load_native", lambda: None)
    world = random_world(action_type)
    theirs = CudaEngine(resolve(world), Settings(3, autoreset_mode=autoreset("next_step"), copy=True), device="cpu")
    ours = rookery.make_vec(world, 3, backend="serial")
    one, other = ours.reset(seed=5)[0], theirs.reset(seed=5)[0]
    ours.action_space.seed(2)
    for _ in range(80):
        assert np.array_equal(one, other.numpy())
        actions = ours.action_space.sample()
        one, rewards, *_, infos = ours.step(actions)
        other, their_rewards, *_, their_infos = theirs.step(torch.from_numpy(actions))
        assert np.array_equal(rewards.astype(np.float32), their_rewards.numpy())
        for name in ("equity", "positions", "free"):
            told = np.flatnonzero(infos.get(f"_{name}", np.zeros(3, bool)))
            assert all(np.array_equal(infos[name][env], their_infos[name].numpy()[env]) for env in told)
    ours.close()


@pytest.mark.slow
@pytest.mark.timeout(600)  # they are compiled
@pytest.mark.parametrize("action_type", ["weights", "brackets"])
def test_compiled_code_gives_the_numbers_of_plain_python(action_type: str) -> None:
    world = random_world(action_type)
    compiled, plain = rookery.make_vec(world, 1, backend="kernel"), KernelEnv(world, plain=True)
    one, other = compiled.reset(seed=[5])[0][0], plain.reset(seed=5)[0]
    compiled.action_space.seed(2)
    for _ in range(2_000):
        assert np.array_equal(one, other)
        action = compiled.action_space.sample()
        observations, rewards, terminated, truncated, infos = compiled.step(action)
        other, reward, _, _, info = plain.step(action[0])
        one = observations[0]
        assert rewards[0] == pytest.approx(reward, abs=1e-12) and infos["equity"][0] == info["equity"]
        if terminated[0] or truncated[0]:
            one, other = compiled.step(action)[0][0], plain.reset()[0]


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"leverage": 200.0}, "1 / leverage"),
        ({"leverage": 0.0}, "leverage"),
        ({"costs": "ecn-forex"}, "no liquidation_fee"),
        ({"action_type": "orders"}, "weights or brackets"),
        ({"action_type": "brackets", "inside_bar": "best"}, "worst, low-first, high-first"),
        ({"funding_hours": -1}, "funding_hours"),
        ({"inside_bar": "worst"}, "no option 'inside_bar'"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        perpetual(coin(FLAT), **options)


def test_funding_in_percent_is_refused() -> None:
    with pytest.raises(DataError, match=r"should be a fraction"):
        perpetual(random_bars(("BTC/USDT",), funding=0.01), costs={**FREE, "funding": "data"})
