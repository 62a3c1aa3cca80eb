"""Rules and files of signals in the account of the market worlds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rookery
from rookery.cli.main import main
from rookery.data.dataset import Bars, Dataset
from rookery.data.storage import write
from rookery.data.synth import synthesise
from rookery.errors import OptionError, UsageError
from rookery.training.backtest.rules import mean_reversion, momentum
from rookery.training.resolve.world_choice import find
from training.backtest.recorded import agent_for


@pytest.fixture(autouse=True, scope="module")
def without_compiling():
    """The worlds run as plain Python: compiling them would take longer than all these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rookery.kernel.runner.load_native", lambda: None)
        yield


COINS = synthesise(2, 300, "1h", seed=4)
PAIR = synthesise(bars=300, timeframe="1h", seed=4, kind="forex", symbols=("EURUSD",))


def trend(bars: Bars) -> np.ndarray:
    """Long while the price is above its mean so far, else short."""
    means = np.cumsum(bars["close"]) / np.arange(1, len(bars) + 1)
    return np.where(bars["close"] > means, 1.0, -1.0)


def test_always_long_is_holding_and_always_flat_is_cash() -> None:
    long = rookery.backtest(lambda bars: np.ones(len(bars)), data=PAIR, costs="none")
    assert long["agent"]["total_return"] == pytest.approx(long["hold"]["total_return"], abs=2e-3)
    assert long["agent"]["trades"] == 1 and long["split"] == "all" and long["world"] == "forex"
    flat = rookery.backtest(lambda bars: np.zeros(len(bars)), data=COINS)
    assert flat["agent"]["total_return"] == 0.0 and flat["agent"]["trades"] == 0


@pytest.mark.parametrize("fee", [0.0, 0.002])
def test_the_account_is_what_another_accountant_says(fee: float) -> None:
    """Targets are held from the next open on; nothing between them is traded, as changes are all or nothing."""
    one = Dataset(COINS.bars[:1], COINS.timeframe, COINS.calendar, history=COINS.history)
    bars = one.bars[0]
    costs = {"preset": "none", "fee": fee}
    report = rookery.backtest(trend, data=one, costs=costs, world_options={"min_change": 0.5})
    cash, units = 100_000.0, 0.0
    wanted = np.maximum(trend(bars), 0.0)
    for row in range(len(bars) - 1):
        price, close = bars["open"][row + 1], bars["close"][row]
        if wanted[row] and not units:
            units = min((cash + 0.0) / close, cash / (price * (1 + fee)))
            cash -= units * price * (1 + fee)
        elif not wanted[row] and units:
            cash += units * price * (1 - fee)
            units = 0.0
    assert report.account.equity["agent"][-1] == pytest.approx(cash + units * bars["close"][-1], rel=1e-6)


def test_signals_of_a_file_are_the_rule_that_made_them(tmp_path: Path) -> None:
    bars = PAIR.bars[0]
    by_rule = rookery.backtest(trend, data=PAIR)
    rows = [f"{time},{target:g}" for time, target in zip(bars.times, trend(bars), strict=True)]
    (tmp_path / "signals.csv").write_text("\n".join(["time,signal", *rows]))
    by_file = rookery.backtest(tmp_path / "signals.csv", data=PAIR, time_is="end")
    np.testing.assert_array_equal(by_file.account.equity["agent"], by_rule.account.equity["agent"])
    words = [
        f"{time - 3600},{'buy' if target > 0 else 'short'}"
        for time, target in zip(bars.times, trend(bars), strict=True)
    ]
    (tmp_path / "words.csv").write_text("\n".join(["time,side", *words]))
    by_word = rookery.backtest(tmp_path / "words.csv", data=PAIR)  # a signal has the time at which its bar begins
    np.testing.assert_array_equal(by_word.account.equity["agent"], by_rule.account.equity["agent"])


def test_signals_may_be_few_and_of_several_symbols(tmp_path: Path) -> None:
    first, second = COINS.symbols
    middle = int(COINS.bars[0].times[100])
    text = f"time,symbol,weight\n{middle},{first},1\n{middle},{second},0.5\n{middle + 90 * 3600},{first},0\n"
    (tmp_path / "signals.csv").write_text(text)
    report = rookery.backtest(str(tmp_path / "signals.csv"), data=COINS, costs="none", time_is="end")
    exposure, times = report.account.exposure, report.account.times[1:]
    assert (exposure[times <= middle] == 0).all()
    assert 0.7 < exposure[times > middle][0] < 0.8 and 0.2 < exposure[-1] < 0.3


def test_a_rule_that_knows_the_future_is_refused() -> None:
    def next_return(bars: Bars) -> np.ndarray:
        return np.append(np.sign(np.diff(bars["close"])), 0.0)

    def normalised(bars: Bars) -> np.ndarray:
        return np.where(bars["close"] > bars["close"].mean(), 1.0, 0.0)

    for rule in (next_return, normalised):
        with pytest.raises(OptionError, match="knows the future: its target of row"):
            rookery.backtest(rule, data=PAIR)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda bars: np.ones(3), "one target per bar"),
        (lambda bars: np.full(len(bars), np.nan), "row 0 is not a finite number"),
        (lambda bars: np.full(len(bars), 2.0), "a target is 2"),
        (lambda bars: ["buy"] * len(bars), "one number per bar"),
        (
            lambda bars: np.random.default_rng().random(len(bars)),
            "another target for row 0 of EURUSD when it is called",
        ),
        (type("Empty", (), {}), "Empty is not a rule"),
        ("rule:nothing", "the rules are momentum, mean_reversion"),
    ],
)
def test_bad_rules_are_named(rule: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        rookery.backtest(rule, data=PAIR)  # type: ignore[arg-type]


def test_a_rule_needs_bars_and_attempts() -> None:
    with pytest.raises(UsageError, match="needs bars"):
        rookery.backtest(trend)
    with pytest.raises(OptionError, match="at least 1"):
        rookery.backtest(trend, data=PAIR, attempts=0)


def test_more_attempts_are_less_worth() -> None:
    once, often = (rookery.backtest(trend, data=PAIR, attempts=attempts)["luck"] for attempts in (1, 200))
    assert once["deflated_sharpe"] > often["deflated_sharpe"] and once["least_sharpe"] < often["least_sharpe"]


def test_built_in_rules() -> None:
    rising = Bars("A", np.arange(200) * 60, {"close": np.linspace(1, 2, 200)})
    assert momentum(rising)[:100].sum() == 0 and (momentum(rising)[100:] == 1).all()
    assert (mean_reversion(rising)[:19] == 0).all() and (mean_reversion(rising)[19:] == -1).all()
    assert mean_reversion(rising.rows(slice(0, 5))).tolist() == [0.0] * 5
    report = rookery.backtest("rule:mean-reversion", data=COINS)
    assert report["agent"]["trades"] > 10 and any("crypto is spot" in note for note in report["notes"])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("world", "data"), [("crypto", COINS), ("perpetuals", COINS), ("forex", PAIR), ("forex-account", PAIR)]
)
def test_an_agent_is_compared_with_rules_on_its_own_bars(world: str, data: Dataset) -> None:
    """At the same costs: the rule in the agent's report is the rule in its own."""
    options = {"data": data, "columns": "close", "lookback": 4, "split": "test"}
    agent = agent_for(find(world, options=options).kernel_world)
    names = ("mean_reversion", "momentum")
    shown = {"columns": "close", "lookback": 4}
    report = rookery.backtest(agent, world=world, data=data, rules=names, world_options=shown)
    assert list(report["rules"]) == list(names) and sum("The rule" in note for note in report["notes"]) == 2
    span = [[int(report.account.times[0]), int(report.account.times[-1]) + 1]]
    alone = rookery.backtest("rule:mean_reversion", data=data, world=world, split=span)
    found = report["rules"]["mean_reversion"]
    assert found["total_return"] == pytest.approx(alone["agent"]["total_return"], abs=1e-12)
    assert found["sharpe"] == pytest.approx(alone["agent"]["sharpe"]) and 0 <= found["p_value"] <= 1


def test_a_report_in_two_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """From a CSV of bars and a CSV of signals."""
    monkeypatch.chdir(tmp_path)
    bars = PAIR.bars[0]
    names = ("open", "high", "low", "close", "volume")
    stamps = np.datetime_as_string((bars.times - 3600).astype("datetime64[s]"))
    lines = [",".join([stamps[i], *(repr(float(bars[name][i])) for name in names)]) for i in range(len(bars))]
    Path("EURUSD.csv").write_text("\n".join(["time,open,high,low,close,volume", *lines]))
    Path("signals.csv").write_text(f"time,signal\n{stamps[10]},buy\n{stamps[200]},sell\n")
    assert (
        main(["data", "import", "EURUSD.csv", "--timezone", "UTC", "--calendar", "forex", "--out", "bars.parquet"]) == 0
    )
    assert main(["backtest", "signals.csv", "--data", "bars.parquet", "--out", "report", "--json"]) == 0
    out = capsys.readouterr().out
    found = json.loads(out[out.rindex('{\n  "format"') :] if '{\n  "format"' in out else out[out.rindex('{"format"') :])
    assert found["agent"]["trades"] == 2 and Path("report/report.html").is_file()
    Path("my_rule.py").write_text("class Rule:\n    def __call__(self, bars):\n        return [1.0] * len(bars)\n")
    assert main(["backtest", "my_rule.py:Rule", "--data", "bars.parquet", "--attempts", "5"]) == 0
    assert "5 attempts" in capsys.readouterr().out
    assert main(["backtest", "my_rule.py:Rule"]) == 2


def test_a_file_of_bars_can_be_given(tmp_path: Path) -> None:
    write(COINS, tmp_path / "bars.parquet")
    report = rookery.backtest(trend, data=tmp_path / "bars.parquet", split="test", out=tmp_path / "out")
    assert report["data"]["bars"] < 60 and (tmp_path / "out" / "report.json").is_file()
