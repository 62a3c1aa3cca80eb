"""`rookery resume RUN --set KEY=VALUE`, with runs that are really trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rookery
from rookery.cli.main import main
from rookery.errors import ConfigError
from training.runs import differences, last_state, train


def notes(run: Path) -> list[str]:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [event["text"] for event in events if event["kind"] == "note" and "resumed with" in event["text"]]


def evaluated_at(run: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (run / "evaluations.jsonl").read_text().splitlines()]


def test_changes_are_written_down_and_seen_by_the_next_resume(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """In the run's config.json, with a note of what there was before."""
    run = train("ppo", tmp_path, steps=256).path
    assert main(["resume", str(run), "--set", "steps=512", "--set", "evaluation.every=64"]) == 0
    config = json.loads((run / "config.json").read_text())
    assert config["steps"] == 512 and config["evaluation"]["every"] == 64
    assert main(["resume", str(run), "--steps", "640"]) == 0
    assert json.loads((run / "config.json").read_text())["evaluation"]["every"] == 64
    assert evaluated_at(run) == [256, 320, 384, 448, 512, 576, 640]
    assert notes(run) == [
        "resumed with steps = 512 (256 before), evaluation.every = 64 (10000 before)",
        "resumed with steps = 640 (512 before)",
    ]
    assert "resumed with steps = 640" in capsys.readouterr().err


def test_a_limit_can_be_lifted(tmp_path: Path) -> None:
    """With none, as everywhere in a configuration."""
    run = train("ppo", tmp_path, steps=512, episodes=1).path
    assert main(["resume", str(run), "--set", "episodes=none", "--set", "evaluation.every=none"]) == 0
    config = json.loads((run / "config.json").read_text())
    assert config["episodes"] is None and config["evaluation"]["every"] is None
    assert json.loads((run / "summary.json").read_text())["steps"] == 512
    assert notes(run) == ["resumed with episodes = none (1 before), evaluation.every = none (10000 before)"]


def test_steps_by_set_are_those_of_the_flag(tmp_path: Path) -> None:
    """Both give the run that was never ended, though evaluations and checkpoints come at other times."""
    by_set, by_flag = (train("ppo", tmp_path / name, steps=512).path for name in ("set", "flag"))
    words = ["--set", "steps=1e3", "--set", "checkpoints.every=128", "--set", "evaluation.every=192"]
    assert main(["resume", str(by_set), *words]) == 0
    assert main(["resume", str(by_flag), "--steps", "1e3"]) == 0
    whole = train("ppo", tmp_path / "whole", steps=1000)
    assert not differences(last_state(by_set), last_state(by_flag))
    assert not differences(last_state(by_set), last_state(whole.path))


@pytest.mark.parametrize("learner", ["ppo", "sac", "dqn"])
def test_a_learner_goes_on_with_what_it_can_change(learner: str, tmp_path: Path) -> None:
    """Another learning rate, from the checkpoint on."""
    same, other = (train(learner, tmp_path / name, steps=512).path for name in ("same", "other"))
    rookery.resume(same, steps=768)
    result = rookery.resume(other, steps=768, learning_rate=0.05)
    assert result.total_steps == 768
    assert json.loads((other / "config.json").read_text())[learner]["learning_rate"] == 0.05
    assert differences(last_state(same), last_state(other))


@pytest.mark.parametrize("wish", ["num_envs=8", "seed=6", "ppo.hidden=[8]", "world=Acrobot-v1", "checkpoints.dir=x"])
def test_what_would_break_the_run_is_refused_and_leaves_it_alone(
    wish: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """One line, status 2, and the run's folder as it was; in Python, an error with the same words."""
    run = train("ppo", tmp_path, steps=64).path
    before = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
    capsys.readouterr()
    assert main(["resume", str(run), "--set", wish]) == 2
    key, err = wish.partition("=")[0], capsys.readouterr().err
    assert err.startswith(f"rookery: `{key}` cannot change when a run is resumed; ") and err.count("\n") == 1
    assert {path: path.read_bytes() for path in run.iterdir() if path.is_file()} == before
    with pytest.raises(ConfigError, match="`num_envs` cannot change when a run is resumed"):
        rookery.resume(run, num_envs=8)


def test_opponents_of_evaluations_are_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is named on resuming is kept by its whole path, as one that was named at the start."""
    (tmp_path / "still.py").write_text(
        "import numpy as np\nclass Still:\n    def act(self, observation):\n        return np.zeros(4)\n"
    )
    quiet = {"panel": False, "plot": False, "tensorboard": False}
    options = {"num_envs": 2, "steps": 64, "monitor": quiet, "learner": "ppo", "ppo": {"rollout_length": 16}}
    run = rookery.train("hockey", runs_dir=tmp_path / "runs", evaluation={"episodes": 1}, **options).path
    monkeypatch.chdir(tmp_path)
    assert main(["resume", str(run), "--steps", "128", "--set", "evaluation.opponents=still.py:Still"]) == 0
    kept = json.loads((run / "config.json").read_text())["evaluation"]["opponents"]
    assert kept == [f"{tmp_path}/still.py:Still"]


def test_steps_that_were_made_already_are_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture, caplog: pytest.LogCaptureFixture
) -> None:
    """With how many there are, and no advice for a run that is over."""
    run = train("ppo", tmp_path, steps=256).path
    capsys.readouterr()
    assert main(["resume", str(run), "--steps", "10"]) == 0
    assert "has made 256 of 10 steps: there is nothing to do. To train longer, give more with --steps N" in caplog.text
    assert "an update takes" not in capsys.readouterr().err
