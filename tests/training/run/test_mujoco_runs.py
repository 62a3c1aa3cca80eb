"""Runs on worlds that MuJoCo simulates are continued exactly: checkpoints contain the complete simulation states."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.training.storage.checkpoint import Checkpoints
from training.runs import differences, small

pytest.importorskip("mujoco")
TRAIN = "import json, sys, rookery; rookery.train(json.loads(sys.argv[1]))"


def config(folder: Path, name: str, **options: Any) -> dict[str, Any]:
    """With everything that must be continued: statistics, a schedule, episodes of different lengths."""
    ppo = {"normalise_observations": True, "normalise_rewards": True, "learning_rate_schedule": "linear"}
    return small("ppo", folder, **{"world": "Hopper-v5", "name": name, "ppo": ppo, **options})


def last_checkpoint(folder: Path, name: str) -> dict[str, Any]:
    """Policy, learner and envs."""
    _, tree = Checkpoints(folder / name / "checkpoints").load_latest()
    return {"policy": tree["agent"]["policy"], "learner": tree["learner"], "envs": tree["envs"]}


@pytest.mark.slow
def test_a_resumed_run_goes_on_exactly(tmp_path: Path) -> None:
    constant = {"ppo": {"normalise_observations": True, "learning_rate_schedule": "constant"}}
    begun = rookery.train(config(tmp_path, "begun", steps=256, **constant))
    rookery.resume(begun.path, steps=512)
    rookery.train(config(tmp_path, "whole", steps=512, **constant))
    assert not differences(*(last_checkpoint(tmp_path, name) for name in ("begun", "whole")))


@pytest.mark.slow
def test_a_run_that_was_killed_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    """SIGKILL as soon as there is a checkpoint; then it is resumed to its end."""
    options = {"steps": 16_384, "num_envs": 8, "checkpoints": {"every": 2_048}}
    rookery.train(config(tmp_path, "whole", **options))
    run = subprocess.Popen([sys.executable, "-c", TRAIN, json.dumps(config(tmp_path, "killed", **options))])
    checkpoints = Checkpoints(tmp_path / "killed" / "checkpoints")
    while not checkpoints.steps():
        assert run.poll() is None, "it ended before it was killed"
        time.sleep(0.01)
    run.kill()
    assert run.wait() == -signal.SIGKILL and checkpoints.steps()[-1] < options["steps"]
    rookery.resume(tmp_path / "killed")
    assert not differences(*(last_checkpoint(tmp_path, name) for name in ("killed", "whole")))
