"""The command `rookery deploy`, and verbs that take agents of a registry."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rookery
from deploy.agents import BAD, GOOD, MIDDLING, cartpole_run
from rookery.cli.main import main
from rookery.deploy.registry import Registry


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """With a good champion, made by the command itself, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for skill in (MIDDLING, GOOD):
        run = cartpole_run(tmp_path / "runs", skill)
        assert main(["deploy", run.name, "--to", "agents", "--episodes", "20"]) == 0
    return Registry("agents")


def test_decisions_and_exit_status(registry: Registry, capsys: pytest.CaptureFixture) -> None:
    """Status 1 says that the gate refused; --json holds the evidence."""
    capsys.readouterr()
    bad = cartpole_run(Path("runs"), BAD).name
    assert main(["deploy", bad, "--to", "agents", "--episodes", "20", "--dry-run"]) == 1
    assert capsys.readouterr().out.startswith(f"dry run: refused: run {bad} would be rejected: mean return ")
    assert main(["deploy", bad, "--to", "agents", "--episodes", "20", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["action"], answer["version"], answer["champion"]) == ("refused", 3, 2)
    assert answer["gate"]["figures"]["episodes"] == 20
    assert main(["deploy", "--to", "agents"]) == 0
    shown = capsys.readouterr().out
    assert "champion    version 2" in shown and "challenger  version 3" in shown and "refuse" in shown
    assert main(["deploy", "--rollback", "--to", "agents"]) == 0
    assert "version 1 is the champion again" in capsys.readouterr().out
    assert main(["deploy", "--to", "agents", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["aliases"] == {"champion": 1, "previous": 2, "challenger": 3}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--to", "nowhere"], "nowhere does not exist: `rookery deploy X --to nowhere` makes one"),
        (["--rollback", "--to", "nowhere"], "nowhere does not exist"),
        (["x", "--rollback", "--to", "agents"], "--rollback takes no study or run"),
        (["--watch", "--to", "agents"], "--watch needs a study or run"),
        (["x", "--to", "agents", "--watch", "--first"], "--first and --again are about one decision"),
        (["x", "--to", "agents", "--every", "0"], "every should be a number of seconds above 0"),
        (["x", "--to", "agents"], "nor is it a run"),
        (["x"], "the following arguments are required: --to"),
    ],
)
def test_mistakes(
    words: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["deploy", *words]) == 2
    assert why in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_verbs_take_agents_of_a_registry(registry: Registry, capsys: pytest.CaptureFixture) -> None:
    """eval, watch, export and init_from; what they write is beside the versions, which stay as they are."""
    before = sorted(str(path) for path in Path("agents/versions").rglob("*"))
    capsys.readouterr()
    assert main(["eval", "registry:agents@champion", "--episodes", "5", "--json"]) == 0
    good = json.loads(capsys.readouterr().out)["return_mean"]
    assert main(["eval", "registry:agents@previous", "--episodes", "5", "--json"]) == 0
    assert good > json.loads(capsys.readouterr().out)["return_mean"]
    assert main(["export", "registry:agents", "--standalone", "--json"]) == 0
    assert Path(json.loads(capsys.readouterr().out)["path"]) == Path("agents/outputs/000002/agent.py")
    assert sorted(str(path) for path in Path("agents/versions").rglob("*")) == before
    with pytest.raises(rookery.errors.RunError, match="never changes"):
        rookery.resume("registry:agents@2", steps=10_000)


@pytest.mark.slow
def test_more_verbs(registry: Registry, capsys: pytest.CaptureFixture) -> None:
    capsys.readouterr()
    assert main(["watch", "registry:agents@champion", "--episodes", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"].startswith("agents/outputs/000002/videos")
    assert main(["export", "registry:agents@2", "--onnx", "policy.onnx"]) == 0
    small = {"steps": 256, "num_envs": 4, "runs_dir": "runs", "verbose": False}
    result = rookery.train("CartPole-v1", **small)
    registry.promote(registry.add(result.path).number)
    capsys.readouterr()
    assert main(["compare", "registry:agents@3", "registry:agents@2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["steps"] == 256
    assert main(["runs", "registry:agents@3", "--delete", "--yes", "--runs-dir", "agents/versions"]) != 0
    again = rookery.train("CartPole-v1", init_from="registry:agents@champion", name="third", **small)
    assert again.total_steps == 256
    agent = rookery.load("registry:agents@3", device="cpu")
    assert agent.act(np.zeros((1, 4), np.float32)).shape == (1,)
