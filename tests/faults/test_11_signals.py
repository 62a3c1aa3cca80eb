"""Fault 11: SIGINT and SIGTERM. Finish the step, save, leave with 130 or 143; asked twice, leave at once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rookery
from background import ignore_sigint
from faults.watch import at_most
from rookery.training.storage.checkpoint import Checkpoints
from training.runs import small

pytestmark = pytest.mark.timeout(180)
SLEEPER = """
import time
import numpy as np, gymnasium as gym
class Sleeper(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}
    def step(self, action):
        time.sleep(0.01)
        return np.zeros(1, np.float32), 0.0, False, False, {}
"""


@contextlib.contextmanager
def running(folder: Path, backend: str) -> Iterator[tuple[subprocess.Popen, Path]]:
    """A long run in a process of its own, once it has made its first steps. It is in the background of a script."""
    (folder / "sleeper.py").write_text(SLEEPER)
    config = small("ppo", folder / "runs", steps=10**6, name="long", backend=backend)
    if backend != "kernel":
        config |= {"world": f"{folder / 'sleeper.py'}:Sleeper", "num_envs": 2}
    file = folder / "config.json"
    file.write_text(json.dumps(config))
    command = [sys.executable, "-m", "rookery", "train", str(file)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=ignore_sigint, process_group=0
    )
    metrics = folder / "runs" / "long" / "metrics.jsonl"
    try:
        while not (metrics.exists() and '"progress"' in metrics.read_text()):
            assert process.poll() is None
            time.sleep(0.02)
        yield process, folder / "runs" / "long"
    finally:
        process.kill()
        process.wait()


INTERRUPT, TERMINATE = (signal.SIGINT, 130), (signal.SIGTERM, 143)


@pytest.mark.push("kernel-15-143")
@pytest.mark.parametrize(
    ("backend", "number", "code"),
    [
        ("kernel", *TERMINATE),
        ("process", *INTERRUPT),
        *(pytest.param("serial", *each, marks=pytest.mark.slow) for each in (INTERRUPT, TERMINATE)),
        pytest.param("kernel", *INTERRUPT, marks=pytest.mark.slow),
        pytest.param("process", *TERMINATE, marks=pytest.mark.slow),
    ],
)
def test_a_run_asked_to_stop_saves_and_leaves(number: int, code: int, backend: str, tmp_path: Path) -> None:
    """Within ten seconds, with a checkpoint of its last step and a summary that says why."""
    with running(tmp_path, backend) as (process, run):
        with at_most(10):
            process.send_signal(number)
            assert process.wait() == code
        summary = json.loads((run / "summary.json").read_text())
        assert summary["reason"] == "interrupted"
        assert Checkpoints(run / "checkpoints").load_latest()[0] == summary["steps"] > 0
        assert rookery.load(run).act([[0.0] * (4 if backend == "kernel" else 1)]).shape == (1,)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [INTERRUPT, TERMINATE])
def test_a_signal_to_all_processes_of_a_run_stops_it_as_well(number: int, code: int, tmp_path: Path) -> None:
    """As a terminal, `timeout`, systemd and Slurm send it: no worker ends before the run has saved."""
    with running(tmp_path, "process") as (process, run):
        with at_most(10):
            os.killpg(process.pid, number)
            assert process.wait() == code
        summary = json.loads((run / "summary.json").read_text())
        assert summary["reason"] == "interrupted"
        assert not summary.get("restarts")


@pytest.mark.slow
def test_a_second_sigint_leaves_at_once(tmp_path: Path) -> None:
    """Without waiting for anything."""
    with running(tmp_path, "process") as (process, _), at_most(2):
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(ProcessLookupError):
            time.sleep(0.01)
            process.send_signal(signal.SIGINT)
        assert process.wait() == 130
