"""Fault 13: N steps, a kill, a resume and N more are the same as 2N steps, bit for bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rookery
from training.runs import differences, last_state, small, train

pytestmark = pytest.mark.timeout(240)


def killed_half_way(config: dict, folder: Path, steps: int) -> Path:
    """A run that was killed with SIGKILL some time after a checkpoint at `steps` or later."""
    file = folder / "config.json"
    file.write_text(json.dumps(config))
    command = [sys.executable, "-m", "rookery", "train", str(file), "--name", "killed"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    run = Path(config["runs_dir"]) / "killed"
    try:
        while not any(int(path.name.split("-")[1]) >= steps for path in (run / "checkpoints").glob("step-*")):
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.002)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not (run / "summary.json").exists()
    return run


@pytest.mark.parametrize(
    ("learner", "steps"),
    [("ppo", 8192), *(pytest.param(name, 4096, marks=pytest.mark.slow) for name in ("sac", "dqn"))],
)
def test_a_killed_run_continues_as_if_nothing_had_happened(learner: str, steps: int, tmp_path: Path) -> None:
    """Weights, optimiser, replay and random streams are those of the run that was never disturbed."""
    config = small(learner, tmp_path / "runs", steps=steps, checkpoints={"every": 512})
    run = killed_half_way(config, tmp_path, 1024)
    resumed = rookery.resume(str(run))
    undisturbed = rookery.train(small(learner, tmp_path / "other", steps=steps, checkpoints={"every": steps}))
    assert resumed.total_steps == undisturbed.total_steps == steps
    assert not differences(last_state(run), last_state(undisturbed.path))
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps), "metrics of the lost part were not taken back"


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["ppo", "sac", "dqn", "pqn"])
@pytest.mark.parametrize("backend", ["kernel", "serial"])
def test_a_longer_run_can_be_made_of_two(learner: str, backend: str, tmp_path: Path) -> None:
    """N steps and a resume to 2N equal 2N at once: no schedule here depends on the length of the run."""
    half = train(learner, tmp_path / "half", backend=backend, steps=512)
    rookery.resume(str(half.path), steps=1024)
    whole = train(learner, tmp_path / "whole", backend=backend, steps=1024)
    assert not differences(last_state(half.path), last_state(whole.path))


def test_a_run_may_continue_with_other_workers(tmp_path: Path) -> None:
    """As on another machine: who steps which envs changes no number."""
    half = train("ppo", tmp_path / "half", backend="process", workers=2, steps=512)
    rookery.resume(str(half.path), steps=1024, workers=1)
    whole = train("ppo", tmp_path / "whole", backend="process", workers=2, steps=1024)
    assert not differences(last_state(half.path), last_state(whole.path))


@pytest.mark.few(1)
@pytest.mark.parametrize("recurrent", [None, 8])
def test_a_stop_in_the_middle_of_a_rollout_is_exact(
    recurrent: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unfinished rollout is saved as far as it went, and filled up after resuming."""
    from rookery.training.run import collector

    options = {"rollout_length": 64, "recurrent": recurrent, "normalise_rewards": True, "normalise_observations": True}
    receive, count = collector.Collector._receive, 0

    def interrupting_receive(self: collector.Collector, part: collector.CollectorPart) -> None:
        nonlocal count
        receive(self, part)
        count += 1
        if count == 100:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(collector.Collector, "_receive", interrupting_receive)
    cut = train("ppo", tmp_path / "cut", ppo=options)
    monkeypatch.undo()
    assert cut.reason == "interrupted" and cut.exit_code == 130 and cut.total_steps % 256
    rookery.resume(str(cut.path))
    whole = train("ppo", tmp_path / "whole", ppo=options)
    assert not differences(last_state(cut.path), last_state(whole.path))


def test_a_run_that_cannot_be_exact_says_so(tmp_path: Path) -> None:
    """A world whose state cannot be saved begins new episodes on resuming, and the run's notes name the reason."""
    file = tmp_path / "locked.py"
    file.write_text(
        "import threading\n"
        "from gymnasium.envs.classic_control.cartpole import CartPoleEnv\n"
        "class Locked(CartPoleEnv):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.lock = threading.Lock()\n"
    )
    config = small("ppo", tmp_path / "runs", backend="serial", steps=512)
    result = rookery.train({**config, "world": f"{file}:Locked"})
    again = rookery.resume(str(result.path), steps=1024)
    assert again.total_steps == 1024
    notes = [json.loads(line) for line in (result.path / "metrics.jsonl").read_text().splitlines()]
    assert any("lock" in str(note) and "new episodes" in str(note) for note in notes if note["kind"] == "note")
