"""Agents as strategies of freqtrade and nautilus_trader, with stand-ins for both: the decisions are those of a backtest
on the same bars. The published interfaces were run with the strategies by hand (docs/deploy.md)."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rookery.config import build_config
from rookery.data.dataset import Dataset
from rookery.data.storage import write
from rookery.data.synth import synthesise
from rookery.errors import OptionError
from rookery.learners.saved_agent import saved_agent
from rookery.standalone.writer import describe, standalone_text
from rookery.training.backtest.recording import record_windows
from rookery.training.export.export import CLASS, market_options, strategy_text
from rookery.training.resolve.world_choice import find
from training.backtest.recorded import agent_for

CASES: dict[str, dict[str, Any]] = {
    "forex": {"columns": ["rsi_5", "hour_sin"], "lookback": 3, "cooldown": 2},
    "crypto": {"columns": ["close", "rsi_5"], "lookback": 2, "hold_limit": 6, "costs": "none"},
}
COLUMNS = ("open", "high", "low", "close", "volume")


@pytest.fixture(autouse=True, scope="module")
def without_compiling():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rookery.kernel.runner.load_native", lambda: None)
        patch.setattr("rookery.standalone.market_account.find_spec", lambda name: None)
        yield


class Frame(dict):
    """As much of a table of pandas as the strategy uses."""

    def __getitem__(self, key: Any) -> Any:
        return Frame({name: self[name] for name in key}) if isinstance(key, list) else super().__getitem__(key)

    def __len__(self) -> int:
        return len(self["date"]) if "date" in self else 0

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, np.full(len(self), value) if np.isscalar(value) else value)

    @property
    def loc(self) -> Any:
        def put(which: tuple[np.ndarray, str], value: float) -> None:
            mask, column = which
            self[column] = np.where(mask, value, self.get(column, np.nan))

        return type("Loc", (), {"__setitem__": lambda _, which, value: put(which, value)})()


class Configured:
    """As much of nautilus_trader's StrategyConfig as the strategy uses."""

    def __init_subclass__(cls, frozen: bool = False) -> None:
        assert frozen


def market(name: str) -> Dataset:
    kind = {"symbols": ("EURUSD", "GBPUSD")} if name == "forex" else {}
    data = synthesise(2, 80, "1h", seed=4, kind=name, **kind)
    missing = np.r_[0:40, 44:80]  # a gap ends an episode
    return replace(data, bars=tuple(bars.rows(missing) for bars in data.bars))


@pytest.fixture(params=CASES, scope="module")
def case(request, tmp_path_factory):
    """The name of a world, its bars, the configuration of a run, its agent's files by program, and backtest records."""
    name, data = request.param, market(request.param)
    path = tmp_path_factory.mktemp(name) / "bars.parquet"
    write(data, path)
    config = build_config(name, world_options={**CASES[name], "data": str(path), "split": "train"})
    world = find(name, options={**config.world_options, "split": "all"})
    columns = getattr(world.kernel_world, "asset_columns", None)  # of crypto: its coins share a net
    agent = agent_for(world.kernel_world, seed=3, share_weights=columns is not None, asset_columns=columns)
    records, _ = record_windows(world, agent)
    about = {"run": 'a"""run', "world": name}
    alone = standalone_text(*describe(saved_agent(agent), about))
    return name, data, config, lambda program: strategy_text(program, alone, about, config), records


def loaded(text: str, monkeypatch: pytest.MonkeyPatch, **modules: dict[str, Any]) -> dict[str, Any]:
    """What the file defines, with these stand-ins for modules."""
    for name, content in modules.items():
        parts = name.replace("__", ".").split(".")
        for k in range(1, len(parts) + 1):
            monkeypatch.setitem(sys.modules, ".".join(parts[:k]), ModuleType(parts[k - 1]))
        vars(sys.modules[".".join(parts)]).update(content)
    made: dict[str, Any] = {"__name__": "strategy"}
    exec(compile(text, "strategy.py", "exec"), made)
    return made


def assert_decisions(wanted: dict[str, np.ndarray], data: Dataset, records: Any) -> None:
    """A target is what the account held from the next open on; the price of that open is not known to it."""
    traded = 0
    for record in records:
        for place, symbol in enumerate(record.symbols):
            rows = np.searchsorted(data[symbol].times, record.times[:-1])
            held = record.positions[:, place]
            np.testing.assert_array_equal(np.sign(wanted[symbol][rows]), np.sign(held))
            parts = held * record.opens[1:, place] / record.equity[:-1]
            np.testing.assert_allclose(wanted[symbol][rows], parts, atol=0.02)
            traded += int((np.diff(np.sign(held)) != 0).sum())
    assert traded > 4


def frames_of(data: Dataset) -> dict[str, Frame]:
    return {
        bars.symbol: Frame(date=(bars.times - data.timeframe).tolist(), **{name: bars[name] for name in COLUMNS})
        for bars in data.bars
    }


def test_freqtrade_gets_the_decisions_of_a_backtest(case, monkeypatch):
    name, data, _, text, records = case
    made = loaded(text("freqtrade"), monkeypatch, freqtrade__strategy={"IStrategy": object})
    strategy, frames = made[CLASS](), frames_of(data)
    strategy.dp = SimpleNamespace(get_pair_dataframe=lambda pair, timeframe: frames[pair])
    shown = {pair: strategy.populate_indicators(Frame(frame), {"pair": pair}) for pair, frame in frames.items()}
    assert_decisions({pair: frame["target"] for pair, frame in shown.items()}, data, records)
    assert (strategy.timeframe, strategy.can_short) == ("1h", name == "forex")
    assert strategy.informative_pairs() == [(symbol, "1h") for symbol in data.symbols]
    for pair, frame in shown.items():
        frame = strategy.populate_exit_trend(strategy.populate_entry_trend(frame, {"pair": pair}), {"pair": pair})
        np.testing.assert_array_equal(frame["enter_long"] == 1, frame["target"] > 0)
        np.testing.assert_array_equal(frame["exit_long"] == 1, frame["target"] <= 0)
    other = strategy.populate_indicators(Frame(frames[data.symbols[0]]), {"pair": "DOGE/USD"})
    assert not other["target"].any()


def test_freqtrade_trades_the_size_that_is_wanted(case, monkeypatch):
    made = loaded(case[3]("freqtrade"), monkeypatch, freqtrade__strategy={"IStrategy": object})
    strategy, pair = made[CLASS](), case[1].symbols[0]
    strategy.wallets = SimpleNamespace(get_total_stake_amount=lambda: 1000.0)
    strategy._target = lambda name: 0.5
    assert strategy.custom_stake_amount(pair, None, 10.0, 99.0, 1.0, 800.0, 1.0, None, "long") == 500.0
    trade = SimpleNamespace(pair=pair, amount=20.0)
    change = lambda price: strategy.adjust_trade_position(trade, None, price, 0, 1.0, 800.0, 0, 0, 0, 0)  # noqa: E731
    assert (change(10.0), change(20.0), change(24.5)) == (300.0, 100.0, None)


@pytest.mark.slow
def test_nautilus_gets_the_same_decisions_bar_by_bar(case, monkeypatch):
    """Every decision is made when only the bars up to it are known."""
    _, data, _, text, records = case
    made = loaded(
        text("nautilus"),
        monkeypatch,
        nautilus_trader__config={"StrategyConfig": Configured},
        nautilus_trader__model__data={"BarType": SimpleNamespace(from_str=lambda text: text)},
        nautilus_trader__model__enums={"OrderSide": SimpleNamespace(BUY=1, SELL=-1)},
        nautilus_trader__trading__strategy={
            "Strategy": type("Strategy", (), {"__init__": lambda self, config: setattr(self, "config", config)})
        },
    )
    types = {symbol: f"{symbol}.SIM" for symbol in data.symbols}
    strategy = made[CLASS](SimpleNamespace(bar_types=types, capital=1000.0, least_change=0.0))
    orders: list[tuple[str, float]] = []
    strategy.trade = lambda symbol, part: orders.append((symbol, part))
    for row in range(len(data.bars[0])):
        for bars in data.bars:
            values = {name: bars[name][row] for name in COLUMNS}
            event = int(bars.times[row]) * 1_000_000_000
            strategy.on_bar(SimpleNamespace(bar_type=types[bars.symbol], ts_event=event, **values))
    wanted = {symbol: np.zeros(len(data.bars[0])) for symbol in data.symbols}
    for time, parts in strategy.targets:
        for symbol, part in parts.items():
            wanted[symbol][np.searchsorted(data[symbol].times, time)] = part
    assert_decisions(wanted, data, records)
    from rookery.standalone.market_account import MarketAccount

    at_once = MarketAccount(made["Agent"](), made["WORLD"], made["OPTIONS"]).targets(data)
    for symbol in data.symbols:
        np.testing.assert_array_equal(at_once[symbol], wanted[symbol])
    assert len(orders) == len(data.symbols) * len(strategy.targets)


def test_the_account_needs_no_torch():
    code = "import sys, rookery.standalone.market_account; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("world", "options", "message"),
    [
        ("CartPole-v1", {}, "crypto and forex"),
        ("crypto", {"scaling": "power"}, "scaling=relative"),
        ("crypto", {"layout": "finrl"}, "layout=rookery"),
    ],
)
def test_what_cannot_be_a_strategy_is_named(world, options, message):
    with pytest.raises(OptionError, match=message):
        market_options(build_config(world, world_options=options))
