"""Reports on the market worlds themselves: at the end of a run, by `rookery eval` and by `rookery backtest`."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

import rookery
from rookery.cli.main import main
from rookery.training.backtest.joined_account import hold
from rookery.training.backtest.recording import record_windows
from rookery.training.backtest.report_summary import asset_rows
from rookery.training.resolve.world_choice import find
from rookery.training.storage.run_dir import RunDir
from rookery.training.walk_forward import walk_forward
from training.backtest.recorded import agent_for
from training.runs import QUIET

SMALL = {
    "num_envs": 4,
    "steps": 256,
    "monitor": {**QUIET, "verbose": False},
    "evaluation": {"episodes": 1, "every": 10_000},
    "ppo": {"rollout_length": 16, "epochs": 1, "hidden": [8], "threads": 1},
}


@pytest.fixture(autouse=True, scope="module")
def without_compiling():
    """The worlds run as plain Python: compiling them would take longer than all these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rookery.kernel.runner.load_native", lambda: None)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two symbols of 400 hours, as a file."""
    from rookery.data.storage import write
    from rookery.data.synth import synthesise

    path = tmp_path_factory.mktemp("bars") / "forex.parquet"
    write(synthesise(assets=2, bars=400, timeframe="1h", seed=2, kind="forex", symbols=["EURUSD", "USDJPY"]), path)
    return str(path)


@pytest.fixture(scope="module")
def run(data, tmp_path_factory, without_compiling):
    folder = tmp_path_factory.mktemp("runs")
    rookery.train("forex", world_options={"data_dir": data, "lookback": 2}, runs_dir=str(folder), **SMALL)
    return RunDir.find("latest", folder)


@pytest.mark.slow
def test_a_run_ends_with_a_report(run):
    """On the bars that it has neither trained nor evaluated on."""
    summary = json.loads(run.summary.read_text())
    report = json.loads((run.report / "report.json").read_text())
    assert summary["report"] == str(run.report / "report.html") and (run.report / "report.html").is_file()
    assert summary["report_verdict"] == report["verdict"]
    assert report["split"] == "test" and report["run"] == run.name
    assert report["costs"]["name"] == "ecn-forex" and len(report["costs"]["rates"]) > 3
    assert any("synthetic" in text for text in report["notes"])
    assert [row["symbol"] for row in report["by_asset"]] == ["EURUSD", "USDJPY"]


@pytest.mark.slow
def test_the_splits_do_not_overlap(run):
    found = {split: rookery.backtest(run.path, split=split) for split in ("train", "validation", "test")}
    edges = [(report.account.times[0], report.account.times[-1]) for report in found.values()]
    assert all(before[1] < after[0] for before, after in pairwise(edges))
    assert "was trained on bars" in found["train"]["notes"][0]
    assert "checkpoint was chosen" in found["validation"]["notes"][0]


def test_profits_by_symbol_are_the_account(run):
    report = rookery.backtest(run.path, split="all", deterministic=False, seed=5)
    profit = sum(row["profit"] for row in report["by_asset"])
    assert profit == pytest.approx(report["agent"]["final_equity"] - report["initial_equity"])
    assert report["agent"]["trades"] > 5


@pytest.mark.slow
def test_a_portfolio(tmp_path):
    """Positions, prices and costs of the crypto world explain its equity."""
    from rookery.data.synth import synthesise

    data = synthesise(assets=3, bars=300, timeframe="5m", seed=1)
    report = rookery.backtest(
        rookery.train("crypto", world_options={"data": data, "lookback": 2}, runs_dir=str(tmp_path), **SMALL).agent,
        world="crypto",
        world_options={"data": data, "lookback": 2},
        split="all",
        deterministic=False,
    )
    (record,) = report.records
    assert record.trades.sum() > 50
    profit = sum(row["profit"] for row in asset_rows([record], [1.0]))
    assert profit == pytest.approx(record.equity[-1] - record.equity[0])
    assert np.allclose(record.equity[1:], record.cash + (record.positions * record.closes[1:]).sum(1))


@pytest.mark.slow
def test_the_command(run, data, tmp_path, capsys):
    runs = str(run.path.parent)
    words = ["--out", str(tmp_path), "--costs", "none", "--data", data]
    assert main(["backtest", run.name, "--runs-dir", runs, *words]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Beats hold after costs: ") and "none: fee 0 %" in out
    assert f"report: {tmp_path}/report.html" in out
    assert "Trading costs nothing here" in out
    assert main(["backtest", run.name, "--runs-dir", runs, "--json", "--split", "all", "--out", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["split"] == "all"


@pytest.mark.slow
def test_evaluations_have_the_report_too(run, capsys):
    assert main(["eval", run.name, "--runs-dir", str(run.path.parent), "--episodes", "2"]) == 0
    assert "Beats hold after costs: " in capsys.readouterr().out
    assert main(["eval", run.name, "--runs-dir", str(run.path.parent), "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"]["split"] == "test"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps", "10"], "--steps is for --walk-forward"),
        (["--walk-forward", "2", "--split", "test"], "--split has no effect with --walk-forward"),
        (["--walk-forward", "0"], "walk_forward should be a positive integer"),
        (["--costs", "nothing"], "there is no preset 'nothing'"),
        (["--set", "steps=5"], "`steps` has no effect on a backtest"),
        (["--set", "world_options.lookback=3"], "the agent observes"),
    ],
)
def test_mistakes(run, words, message, capsys):
    assert main(["backtest", run.name, "--runs-dir", str(run.path.parent), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_run_without_a_market_is_refused(tmp_path, capsys):
    rookery.train("CartPole-v1", learner="ppo", runs_dir=str(tmp_path), **SMALL)
    assert main(["backtest", "latest", "--runs-dir", str(tmp_path)]) == 2
    assert "is not a market world" in capsys.readouterr().err


@pytest.mark.slow
def test_walk_forward(data, tmp_path):
    """Each fold is tested on the bars after its training, and every bar after the first training is tested once."""
    said: list[str] = []
    report = walk_forward(
        "forex", 2, embargo=5, out=tmp_path / "out", progress=said.append, runs_dir=str(tmp_path),
        world_options={"data": data, "lookback": 2, "symbols": "EURUSD"}, **SMALL,
    )  # fmt: skip
    assert len(said) == 2 and said[0].startswith("fold 1 of 2: train on ")
    assert [row["fold"] for row in report["by_fold"]] == [1, 2]
    first, second = report.records
    assert second.times[0] > first.times[-1]
    assert 260 <= len(report.account) <= 268
    options = [json.loads((tmp_path / f"forex-fold{k}" / "config.json").read_text())["world_options"] for k in (1, 2)]
    for chosen, record in zip(options, report.records, strict=True):
        (_, trained), (chosen_from, chosen_to) = chosen["split"][0], chosen["evaluation_split"][0]
        assert trained + 5 == chosen_from < chosen_to
        assert record.fold is not None
    assert (tmp_path / "out" / "report.html").is_file()
    assert not (tmp_path / "forex-fold1" / "report").exists()


@pytest.mark.slow
def test_hold_is_what_an_agent_would_get_that_is_always_long():
    """In the forex world itself, in other currencies and with swap."""
    import torch

    world = find("forex", options={"split": "test", "daily_drawdown": 1.0, "turnover_cap": 1e9})
    agent = agent_for(world.kernel_world)
    with torch.no_grad():
        for parameter in agent.policy.parameters():
            parameter.zero_()
        last = [parameter for parameter in agent.policy.parameters() if parameter.shape == (3,)][-1]
        last[2] = 10.0
    records, _ = record_windows(world, agent)
    assert [record.symbols for record in records] == [("EURUSD",), ("GBPUSD",), ("USDJPY",), ("USDCHF",)]
    for record in records:
        assert record.trades.sum() == 1 and record.costs["funding"].sum() > 0
        assert hold(record) == pytest.approx(record.equity, rel=2e-3)
