"""Agents of envs that fail now and then, measured again: as in training, `on_failure` decides."""

from __future__ import annotations

from pathlib import Path

import pytest

import rookery
from rookery.cli.main import main
from rookery.deploy.gates import evaluation_gate
from rookery.training.evaluation.evaluate import evaluate
from rookery.training.storage.run_dir import RunDir
from training import moody
from training.runs import small


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    folder = tmp_path_factory.mktemp("runs")
    options = small("ppo", folder, world=f"{moody.__file__}:Moody", backend="serial", steps=64, max_restarts=1000)
    return RunDir(rookery.train({**options, "name": "moody"}).path)


def test_lost_episodes_are_played_again(run: RunDir) -> None:
    figures = evaluate(run.path, episodes=30)
    assert figures["restarts"] > 3 and figures["episodes"] == 30
    assert figures["return_min"] >= moody.END  # none was cut short


def test_the_command_says_so(run: RunDir, capsys: pytest.CaptureFixture, caplog: pytest.LogCaptureFixture) -> None:
    assert main(["eval", str(run.path), "--episodes", "30"]) == 0
    assert "restarts " in capsys.readouterr().out and "played again" in caplog.text


def test_a_gate_survives_them_too(run: RunDir) -> None:
    result = evaluation_gate(run, None, seed=3, episodes=20)
    assert result is not None and result.figures["episodes"] == 20


def test_the_run_may_want_the_error(tmp_path: Path) -> None:
    options = small("ppo", tmp_path, world=f"{moody.__file__}:Steady", backend="serial", steps=64, on_failure="raise")
    result = rookery.train(options)
    with pytest.raises(RuntimeError, match="out of fuel"):
        evaluate(result.path, world=f"{moody.__file__}:Moody", episodes=30)
