"""Runs that never begin leave nothing; `verbose=False` prints nothing; `config_path` names a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rookery
from rookery.errors import CheckpointError, MissingExtra, OptionError, UsageError
from rookery.training.storage.runs_table import table
from training.runs import small

BROKEN = """
import gymnasium as gym
import numpy as np

class Broken(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps > 100:
            raise ValueError("it broke")
        return np.zeros(2, np.float32), 1.0, self.steps % 20 == 0, False, {}
"""


def test_a_missing_tracker_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rookery.monitor.trackers.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="pip install wandb"):
        rookery.train("CartPole-v1", runs_dir=tmp_path / "runs", monitor={"wandb": True})
    assert not (tmp_path / "runs").exists()


def test_nothing_is_left_of_a_run_that_fails_before_its_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its folder nor those that were made for it; folders that were there stay."""

    def fail(*args: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("rookery.training.run.loop.Loop.begin", fail)
    for runs in (tmp_path / "new", tmp_path):
        with pytest.raises(OSError, match="no space left"):
            rookery.train(small("ppo", runs, checkpoints={"dir": str(tmp_path / "kept")}))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"] and not list((tmp_path / "kept").iterdir())


def test_a_run_whose_env_broke_has_failed(tmp_path: Path) -> None:
    """Also if it breaks when the run is resumed, before its first step."""
    file = tmp_path / "broken.py"
    file.write_text(BROKEN)
    config = {**small("ppo", tmp_path / "runs", backend="serial", on_failure="raise"), "world": f"{file}:Broken"}
    with pytest.raises(ValueError, match="it broke"):
        rookery.train(config)
    (row,) = table(tmp_path / "runs")
    assert row["state"] == "failed" and row["steps"] > 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rookery.training.run.loop.Loop.load", lambda *args: 1 / 0)
        with pytest.raises(CheckpointError):
            rookery.resume(row["path"], trust=True)
    assert table(tmp_path / "runs")[0]["state"] == "failed"


def test_verbose_false_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture, caplog) -> None:
    """Neither on standard output nor on standard error, nor through `logging`; files are written unchanged."""
    config = small("ppo", tmp_path, steps=128, monitor={"plot": True})
    run = rookery.train({**config, "ppo.ent_coef": 0.01}, verbose=False).path
    rookery.resume(run, steps=192)  # as it is recorded
    shown = capfd.readouterr()
    assert (shown.out, shown.err, caplog.text) == ("", "", "")
    assert json.loads((run / "summary.json").read_text())["steps"] == 192


def test_a_file_by_its_keyword(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(small("ppo", tmp_path / "runs", steps=64)))
    assert rookery.train(config_path=file).total_steps == 64
    for world, call in ((None, {}), ("CartPole-v1", {"config_path": str(file)})):
        with pytest.raises(UsageError, match="give one of them"):
            rookery.train(world, **call)


def test_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="device='cuda:97' was requested"):
        rookery.train("CartPole-v1", device=97, runs_dir=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
