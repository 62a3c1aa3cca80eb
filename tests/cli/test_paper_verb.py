"""`rookery paper`: what it prints, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.paper.trading import bars, crypto_run, stored
from rookery.cli.main import main


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("files")
    data = stored(folder, bars())
    return str(crypto_run(folder, data).path), data


@pytest.mark.slow
def test_trade_status_and_check(files: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run, data = files
    account = ["--account", str(tmp_path / "account")]
    assert main(["paper", run, "--data", data, "--start", "2024-12-31", "--bars", "20", *account]) == 0
    shown = capsys.readouterr().out
    assert "equity 100,000.00" in shown and "kill-switch" in shown
    assert main(["paper", run, "--status", "--json", *account]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["bars"] == 20 and status["killed"] is None and status["version"] == 0
    assert {"equity", "positions", "last_bar", "since", "drawdown"} <= status.keys()
    assert main(["paper", run, "--check", "--json", *account]) == 0
    assert json.loads(capsys.readouterr().out)["equal"] is True


@pytest.mark.slow
def test_kill_switch_has_its_own_status(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And sends an alert."""
    monkeypatch.setenv("ROOKERY_ALERT_COMMAND", f"tee {tmp_path / 'alert.json'}")
    run, data = files
    command = ["paper", run, "--data", data, "--start", "2024-12-31", "--account", str(tmp_path / "account")]
    assert main([*command, "--max-drawdown", "0.004"]) == 3
    assert main(command) == 3
    assert json.loads((tmp_path / "alert.json").read_text())["kind"] == "kill-switch"
    assert main([*command, "--max-drawdown", "1", "--resume-after-kill"]) == 0
    assert main([*command[:2], *command[-2:], "--check"]) == 0
    assert "equal bit for bit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "--data is missing"),
        (["--data", "alpaca:live"], "rookery trades on paper only"),
        (["--data", "ccxt"], "ccxt:NAME"),
        (["--data", "DATA", "--speed", "fast"], "60x, or max"),
        (["--data", "DATA", "--max-drawdown", "2"], "max_drawdown should be"),
        (["--data", "DATA", "--shadow"], "a run has none"),
        (["--data", "nowhere.parquet"], "nowhere.parquet"),
        (["--status"], "there is no paper account"),
        (["--status", "--check"], "not allowed with"),
    ],
)
def test_mistakes(files: tuple[str, str], flags: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    run, data = files
    assert main(["paper", run, *[data if flag == "DATA" else flag for flag in flags]]) == 2
    assert said in capsys.readouterr().err
