"""What forex as one account does in single cases, on bars made for them; and from CSV files to an account on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rookery
from rookery.cli.main import main
from rookery.data.dataset import Bars, Dataset
from rookery.engine.cuda import CudaEngine
from rookery.engine.env_factory import resolve
from rookery.engine.settings import Settings, autoreset
from rookery.errors import OptionError
from rookery.kernel.kernel_env import KernelEnv
from rookery.training.backtest.joined_account import hold
from rookery.training.backtest.recording import MarketView
from rookery.training.backtest.records import COSTS, WindowRecord
from rookery.worlds.market.forex_account import forex_account
from worlds.market.forex_accountant import wild_pairs
from worlds.market.market_bars import START

FREE = {"preset": "none", "margin_call": 0.02}
Rows = list[tuple[float, float, float, float]]


def pairs(**rows: Rows) -> Dataset:
    """Bars of open, high, low and close, after two like the first open: the account decides first after the second."""
    made = []
    for symbol, given in rows.items():
        table = np.array([(given[0][0],) * 4] * 2 + given)
        columns = dict(zip(("open", "high", "low", "close"), table.T, strict=True)) | {"volume": np.ones(len(table))}
        made.append(Bars(symbol, START + 3600 * np.arange(1, len(table) + 1), columns))
    return Dataset(tuple(made), 3600, "24/7")


def play(data: Any, *actions: list[float], **options: Any) -> list[dict[str, Any]]:
    given = {"costs": FREE, "columns": "close", "lookback": 1, "window": 0, "time_limit": 0, "leverage": 20.0}
    env = KernelEnv(forex_account(data=data, **{**given, **options}), plain=True)
    env.reset(seed=1)
    infos = []
    for action in actions:
        observation, reward, terminated, _, info = env.step(np.array(action, np.float32))
        infos.append({**info, "observation": observation, "reward": reward, "terminated": terminated})
    return infos


def flat(price: float) -> tuple[float, float, float, float]:
    return (price, price, price, price)


def test_the_whole_gain_is_worth_what_its_currency_is_worth_now() -> None:
    """1,000,000 dollars bought for 100 yen each and worth 125 earn 25,000,000 yen, which are 200,000 dollars."""
    rise = [flat(100.0), (100.0, 110.0, 100.0, 110.0), (110.0, 125.0, 110.0, 125.0), flat(125.0)]
    held = 1_000_000 / 20 / (100_000 + 10e6 / 110)  # at 110 yen
    _, _, up, closed = play(pairs(USDJPY=rise), [0.5], [0.5], [held], [0.0])
    assert up["positions"][0] == pytest.approx(1_000_000) and up["equity"] == pytest.approx(100_000 + 25e6 / 125)
    assert up["cash"] + up["positions"][0] == pytest.approx(up["equity"])
    assert closed["positions"][0] == 0 and closed["equity"] == pytest.approx(300_000)
    assert closed["gains"][0] == pytest.approx(0.0, abs=1e-6)


def test_where_the_margin_ends_the_largest_loss_is_closed_first() -> None:
    """Two positions of 500,000 dollars; the account is worth 2 % of both at a loss of x: 100,000 - x = 0.02 (10^6 - x).
    Without the one that lost more, the other stays open."""
    fall, slip = (1.0, 1.0, 0.75, 0.8), (1.0, 1.0, 0.99, 1.0)
    data = pairs(EURUSD=[flat(1.0), fall], GBPUSD=[flat(1.0), slip])
    _, info = play(data, [0.25, 0.25], [0.25, 0.25])
    assert info["stop_outs"] == 1 and info["positions"].tolist() == [0, 500_000]
    lost = (100_000 - 20_000) / 0.98
    assert info["equity"] == pytest.approx(100_000 - lost * 25 / 26)  # GBPUSD lost the rest on the way, and is back
    both = pairs(EURUSD=[flat(1.0), fall], GBPUSD=[flat(1.0), (1.0, 1.0, 0.75, 0.76)])
    _, info = play(both, [0.25, 0.25], [0.25, 0.25])
    assert info["stop_outs"] == 2 and info["terminated"]


def test_a_gap_is_stopped_out_at_the_open_after_the_orders_that_close() -> None:
    data = pairs(EURUSD=[flat(1.0), flat(0.96)], GBPUSD=[flat(1.0), flat(0.96)])
    orders = [0.5, 0.5], [0.5, 0.0]
    _, info = play(data, *orders)
    assert info["stop_outs"] == 0 and info["positions"].tolist() == [1_000_000, 0]
    _, info = play(data, *orders, costs={**FREE, "margin_call": 0.045})
    assert info["stop_outs"] == 1 and info["equity"] == pytest.approx(20_000) and not info["positions"].any()


def test_orders_share_the_free_margin_and_pay_their_costs_of_it() -> None:
    data = pairs(EURUSD=[flat(1.0)], USDJPY=[flat(100.0)])
    (info,) = play(data, [1.0, -1.0], costs={**FREE, "fee": 0.001})
    assert info["free"] == pytest.approx(0.0, abs=1e-6)
    assert info["margin"] + info["fees"] == pytest.approx(100_000)
    size = 50_000 / (1 / 20 + 0.001)
    assert info["positions"].tolist() == pytest.approx([size, -size])


def test_the_observation_has_the_account_first() -> None:
    data = pairs(EURUSD=[flat(1.0), (1.0, 1.01, 1.0, 1.01)], USDJPY=[flat(100.0), flat(100.0)])
    _, info = play(data, [0.5, -0.1], [0.5, -0.1])
    wanted = np.array([110_000 - (1_010_000 + 200_000) / 20, 1_010_000, -200_000, 10_000, 0]) / 110_000
    assert info["observation"][:5] == pytest.approx(wanted, rel=1e-6)


def test_a_pair_of_another_account_needs_no_data_of_its_own_in_a_worker() -> None:
    data = wild_pairs(("EURUSD", "EURGBP", "GBPUSD"), 60)
    world = forex_account(data=data, symbols="EURGBP", columns="noise", lookback=2)
    assert world.market.symbols == ("EURGBP",) and "converted" not in vars(world)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"leverage": 60.0}, "1 / leverage"),
        ({"leverage": 0.0}, "leverage"),
        ({"costs": {"preset": "ecn-forex", "borrow": 0.01}}, "has borrow = 0.01, which a forex account does not pay"),
        ({"costs": {"preset": "ecn-forex", "funding": "data"}}, "has funding = data"),
        ({"action_type": "discrete"}, "action_type should be weights"),
        ({"cooldown": 3}, "forex-account has no option 'cooldown'"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        forex_account(data=wild_pairs(("EURUSD",), 60), **{"columns": "noise", **options})


# --- the same numbers everywhere --------------------------------------------------------------------------------------


def random_world(**options: Any) -> Any:
    table = {name: {"swap_long": -3.0, "swap_short": 1.0, "swap_unit": "percent"} for name in ("EURUSD", "USDJPY")}
    return forex_account(
        data=wild_pairs(("EURUSD", "USDJPY"), 400), columns="noise", lookback=2, broker=table,
        **{"leverage": 20.0, "time_limit": 30, **options},
    )  # fmt: skip


@pytest.mark.slow
def test_the_code_for_gpus_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU: its kernel's body in plain Python, in the engine that launches it."""
    monkeypatch.setattr("rookery.kernel.runner.load_native", lambda: None)
    world = random_world()
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
        for name in ("equity", "positions", "funding_cost"):
            told = np.flatnonzero(infos.get(f"_{name}", np.zeros(3, bool)))
            assert all(np.array_equal(infos[name][env], their_infos[name].numpy()[env]) for env in told)
    ours.close()


@pytest.mark.slow
@pytest.mark.timeout(600)  # it is compiled
def test_compiled_code_gives_the_numbers_of_plain_python() -> None:
    world = random_world()
    compiled, plain = rookery.make_vec(world, 1, backend="kernel"), KernelEnv(world, plain=True)
    one, other = compiled.reset(seed=[5])[0][0], plain.reset(seed=5)[0]
    compiled.action_space.seed(2)
    for _ in range(2_000):
        assert np.array_equal(one, other)
        action = compiled.action_space.sample()
        observations, rewards, terminated, truncated, infos = compiled.step(action)
        other, reward, _, _, info = plain.step(action[0])
        one = observations[0]
        assert rewards[0] == pytest.approx(reward, abs=1e-12)
        assert infos["equity"][0] == pytest.approx(info["equity"], rel=1e-12)
        if terminated[0] or truncated[0]:
            one, other = compiled.step(action)[0][0], plain.reset()[0]


# --- in reports, and from files to paper ------------------------------------------------------------------------------


def test_holding_in_a_report_is_what_the_account_would_do() -> None:
    """An account that is long once, and what the report says of holding, with profits in yen and swaps."""
    world = random_world(leverage=1.0, time_limit=0, window=0, min_change=0.4)
    env = KernelEnv(world, plain=True)
    env.reset(seed=1)
    infos = [env.step(np.array([0.495, 0.495], np.float32))[4] for _ in range(200)]
    view, rows = MarketView(world), np.arange(1, 202)
    opens, closes = view.prices(rows)
    equity, nothing = np.full(201, view.cash), np.zeros(200)
    record = WindowRecord(
        view.symbols(0), view.market.times[rows], equity, opens, closes, np.zeros((200, 2)), *[nothing] * 5,
        dict.fromkeys(COSTS, nothing), view.entry_cost(rows), view.carry(rows),
    )  # fmt: skip
    held, paid = hold(record)[1:], sum(info["funding_cost"] for info in infos)
    assert sum(info["trades"] for info in infos) == 2 and paid > 100
    gained = np.array([info["equity"] for info in infos]) - view.cash
    assert (held - view.cash) * 0.99 == pytest.approx(gained, abs=30)


CSV = {
    "EURUSD": (1.09, 5), "USDJPY": (145.0, 3), "EURGBP": (0.86, 5),
}  # fmt: skip


def write_files(folder: Path) -> None:
    """Bars with a spread in points, and the table of a broker, as people have them."""
    rng = np.random.default_rng(5)
    hours = np.datetime64("2024-02-25T22:00") + np.arange(24 * 7 * 8).astype("m8[h]")
    open_hours = [hour for k, hour in enumerate(hours) if k % (24 * 7) < 24 * 5]
    (folder / "bars").mkdir()
    for symbol, (price, digits) in CSV.items():
        lines = ["time,open,high,low,close,volume,spread"]
        for hour in open_hours:
            close = price * np.exp(rng.normal(0, 0.001))
            high, low = max(price, close) * 1.0002, min(price, close) * 0.9998
            numbers = ",".join(f"{number:.{digits}f}" for number in (price, high, low, close))
            lines.append(f"{hour},{numbers},100,{rng.integers(3, 12)}")
            price = close
        (folder / "bars" / f"{symbol}.csv").write_text("\n".join(lines) + "\n")
    (folder / "broker.csv").write_text(
        "symbol,swap_long,swap_short,swap_unit\nEURUSD,-7.2,2.1,points\nUSDJPY,12.5,-25.1,points\nEURGBP,-4.1,1.2,points\n"
    )


@pytest.mark.slow
@pytest.mark.timeout(600)  # it is compiled
def test_from_csv_files_to_an_account_on_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    options = "--data fx.parquet --broker broker.csv --set world_options.costs.preset=ecn-forex"
    for words in (
        "data import bars --timezone UTC --calendar forex --spread points --out fx.parquet",
        f"train forex-account {options} --set world_options.costs.half_spread=data --steps 2048 --n-envs 8 --name fx",
        "backtest fx",
        "backtest rule:momentum --world forex-account --data fx.parquet --set world_options.broker=broker.csv",
        "paper fx --data fx.parquet --start 2024-04-10",
        "paper fx --check",
    ):
        assert main(words.split()) == 0, words
    said = capsys.readouterr().out
    assert "EURGBP: swap -4.1 (long) and 1.2 (short) points a night, three times on Wednesday" in said
    assert "equal bit for bit" in said
    assert main(["export", "fx", "--freqtrade", "strategy.py"]) == 2
    assert "of agents of crypto and forex" in capsys.readouterr().err
