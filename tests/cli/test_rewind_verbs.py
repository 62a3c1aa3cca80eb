"""The commands that go back into a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rookery
from rookery.cli.main import main
from training.runs import small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    rookery.train(small("ppo", path, steps=256, name="first"))
    return path


def test_rewind_prints_where_it_is_and_dumps(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["first", "--runs-dir", str(folder)]
    assert main(["rewind", *where, "--at", "1_00", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["step"] == 100 and told["exact"]
    assert main(["rewind", *where, "--update", "2", "--dump", str(tmp_path / "dump")]) == 0
    assert "128 steps, 1 updates" in capsys.readouterr().out
    assert (tmp_path / "dump/gradients.npz").is_file()
    assert main(["rewind", *where, "--worst", "--at", "5"]) == 2
    assert "one moment" in capsys.readouterr().err


def test_a_shell_has_the_parts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["print('at', live.step, learner.updates, len(batch), envs.num_envs, agent.steps)"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(lines, None) or (_ for _ in ()).throw(EOFError))
    assert main(["rewind", "first", "--runs-dir", str(folder), "--at", "100", "--shell"]) == 0
    assert "at 100 1 " in capsys.readouterr().out


@pytest.mark.slow
def test_fork_diff_and_blame(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--runs-dir", str(folder)]
    options = ["--name", "second", "--set", "ppo.learning_rate=0.05", "--no-panel", "--json"]
    assert main(["fork", "first", *where, "--at", "128", *options]) == 0
    assert json.loads(capsys.readouterr().out)["run_name"] == "second"
    assert main(["diff", "first", "second", *where]) == 1
    told = capsys.readouterr().out
    assert "step 192" in told and "ppo.learning_rate" in told
    assert main(["blame", "second", *where, "--first", "128", "--last", "256", "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["windows"] == [[128, 256]]
