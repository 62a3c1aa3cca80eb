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


def test_a_resumed_run_can_be_quiet(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    run = train("ppo", tmp_path, steps=128).path
    capfd.readouterr()
    assert main(["resume", str(run), "--steps", "256", "--quiet"]) == 0
    assert capfd.readouterr() == ("", "")


def test_a_limit_can_be_lifted(tmp_path: Path) -> None:
    """With none, as everywhere in a configuration."""
    run = train("ppo", tmp_path, steps=512, episodes=1).path
    assert main(["resume", str(run), "--set", "episodes=none", "--set", "evaluation.every=none"]) == 0
    config = json.loads((run / "config.json").read_text())
    assert config["episodes"] is None and config["evaluation"]["every"] is None
    assert json.loads((run / "summary.json").read_text())["steps"] == 512
    assert notes(run) == ["resumed with episodes = none (1 before), evaluation.every = none (10000 before)"]


@pytest.mark.slow
def test_steps_by_set_are_those_of_the_flag(tmp_path: Path) -> None:
    """Both give the run that was never ended, though evaluations and checkpoints come at other times."""
    by_set, by_flag = (train("ppo", tmp_path / name, steps=512).path for name in ("set", "flag"))
    words = ["--set", "steps=1e3", "--set", "checkpoints.every=128", "--set", "evaluation.every=192"]
    assert main(["resume", str(by_set), *words]) == 0
    assert main(["resume", str(by_flag), "--steps", "1e3"]) == 0
    whole = train("ppo", tmp_path / "whole", steps=1000)
    assert not differences(last_state(by_set), last_state(by_flag))
    assert not differences(last_state(by_set), last_state(whole.path))


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["ppo", "sac", "dqn", "pqn"])
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


def contents(run: Path) -> dict[Path, tuple[bytes, int]]:
    """All files of a run, and when they were written."""
    files = (path for path in run.rglob("*") if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            [],
            "has made 256 of 256 steps: there is nothing to do. To train longer, give more steps, such as --steps 512",
        ),
        (["--steps", "10"], "has made 256 of 10 steps"),
        (["--set", "evaluation.every=50"], "has made 256 of 256 steps"),
        (["--num-episodes", "3", "--steps", "512"], "of 3 episodes: there is nothing to do"),
        (["--set", "evaluation.stop_at=-1", "--steps", "512"], "has reached `evaluation.stop_at` = -1 with"),
        (["--set", "evaluation.stop_at=-1"], "has made 256 of 256 steps and has reached `evaluation.stop_at`"),
    ],
)
def test_a_run_that_is_over_stays_as_it_is(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture, caplog: pytest.LogCaptureFixture
) -> None:
    """One line says what it has made, and how it can go on; no figure and no key of its config is changed."""
    run = train("ppo", tmp_path, steps=256).path
    before = contents(run)
    capsys.readouterr()
    assert main(["resume", str(run), *flags]) == 0
    assert words in caplog.text and contents(run) == before
    assert "an update takes" not in capsys.readouterr().err


def test_what_is_suggested_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """From what was made, which is more than what was requested."""
    result = train("ppo", tmp_path, steps=100_000, episodes=5)
    assert rookery.resume(result.path, episodes=4).total_steps == result.total_steps
    suggested = 2 * result.episodes
    assert f"--num-episodes {suggested}" in caplog.text
    assert rookery.resume(result.path, episodes=suggested).episodes == suggested


def test_the_result_of_a_run_that_is_over_is_its_own(tmp_path: Path) -> None:
    result = train("ppo", tmp_path, steps=256)
    again = rookery.resume(result.path)
    same = {name: value for name, value in result.items() if name not in ("agent", "seconds", "num_envs")}
    assert {name: again[name] for name in same} == same
    assert again.num_envs == 4 and again.agent.act([[0.0] * 4]).shape == (1,)


def test_a_run_that_was_killed_at_its_end_is_finished(tmp_path: Path) -> None:
    """All steps are made, and the last checkpoint is there; the summary is not."""
    run = train("ppo", tmp_path, steps=256).path
    (run / "summary.json").unlink()
    assert rookery.resume(run).reason == "finished"
    assert json.loads((run / "summary.json").read_text())["steps"] == 256


def test_a_plus_counts_from_the_latest_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = train("ppo", tmp_path, steps=256).path
    assert main(["resume", str(run), "--steps", "+128"]) == 0
    assert main(["resume", str(run), "--steps", "+1e2"]) == 0
    assert [text.partition(" (")[0] for text in notes(run)] == ["resumed with steps = 384", "resumed with steps = 484"]
    assert main(["resume", str(run), "--steps", "+-5"]) == 2
    assert "further steps" in capsys.readouterr().err
