"""Deploying an agent of a market: the data's hash, and every look at the last segment in the log."""

from __future__ import annotations

from pathlib import Path

import pytest

import rookery
from rookery.cli.main import main
from rookery.data.storage import write
from rookery.data.synth import synthesise
from rookery.deploy.promotion import deploy
from rookery.deploy.registry import Registry


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("market")
    write(synthesise(2, 600, "5m", seed=3, kind="crypto"), folder / "bars.parquet")
    result = rookery.train(
        "crypto", steps=32, num_envs=2, runs_dir=folder, name="candidate", verbose=False,
        world_options={"data": str(folder / "bars.parquet"), "columns": "close", "lookback": 2},
        ppo={"rollout_length": 16, "hidden": [4], "threads": 1}, monitor={"report": False, "system": False},
        evaluation={"episodes": 1, "every": 10_000},
    )  # fmt: skip
    return result.path


@pytest.mark.slow
def test_every_look_counts(run: Path, tmp_path: Path) -> None:
    """A dry run looks at the last segment too: it is logged, and the gate of the next comparison knows of it."""
    to = tmp_path / "agents"
    said = deploy(run, to, dry_run=True, margin=100.0)
    assert said.action == "refused" and "would be rejected" in said.text
    registry = Registry(to)
    assert [entry["what"] for entry in registry.audit()] == ["compare"] and registry.versions() == []
    second = deploy(run, to, margin=100.0)
    assert second.gate is not None and second.gate.figures["comparisons"] == 1
    assert "deflated Sharpe ratio" in second.text and "largest drawdown" in second.text
    assert len(registry.version(1).about["data_hash"]) == 16
    compared = to / "outputs" / "000001" / "gate"
    assert [path.name for path in compared.iterdir()] == ["candidate.npy"]  # there is no champion yet


@pytest.mark.slow
def test_backtest_of_a_version(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Its report is beside the versions."""
    to = tmp_path / "agents"
    assert deploy(run, to, first=True).action == "promoted"
    assert rookery.backtest(f"registry:{to}@champion")["agent"]
    assert main(["backtest", f"registry:{to}"]) == 0
    assert (to / "outputs" / "000001" / "report" / "report.json").is_file()
    Registry(to).version("champion")
