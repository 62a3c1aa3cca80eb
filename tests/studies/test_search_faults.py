"""Whole searches, with real workers, in which something goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rookery.studies.storage.study_view import open_study

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ENV = '''
import os
import signal
import time

import gymnasium as gym
import numpy as np


class Env(gym.Env):
    """Ten steps an episode; what happens in step 25 depends on `mode`."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, mode="well", pause=0.0):
        self.mode, self.pause, self.steps = mode, pause, 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 10
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        self.steps += 1
        self.left -= 1
        time.sleep(self.pause)
        if self.steps == 25 and self.mode == "raises":
            raise ValueError("the floor is wet")
        if self.steps == 25 and self.mode == "kills":
            os.kill(os.getpid(), signal.SIGKILL)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), float(action), self.left == 0, False, {}
'''
BASE = {
    "steps": 256, "num_envs": 1, "backend": "serial", "learner": "ppo", "on_failure": "raise",
    "ppo": {"rollout_length": 64, "minibatches": 2, "epochs": 1}, "evaluation": {"episodes": 1, "max_episodes": 1},
    "checkpoints": {"every": 64},
}  # fmt: skip
SEARCH = {
    "n_trials": 3, "study_name": "x", "jobs": 1, "seeds": 1, "verify": 1, "verify_seeds": 2, "sampler": "random",
    "space": {"ppo.learning_rate": {"log": [1e-4, 1e-2]}},
}  # fmt: skip


@pytest.fixture
def start(tmp_path):
    """Starts `rookery search` with these keys of `search` and of the world, in a folder of its own."""
    (tmp_path / "env.py").write_text(ENV)
    started: list[subprocess.Popen] = []

    def begin(mode="well", pause=0.0, **search):
        config = {"world": f"{tmp_path}/env.py:Env", "world_options": {"mode": mode, "pause": pause}, **BASE}
        (tmp_path / "config.json").write_text(json.dumps({**config, "search": {**SEARCH, **search}}))
        command = [sys.executable, "-m", "rookery", "search", "config.json", "--no-panel"]
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def ended(process):
    """The output of a command that ends by itself."""
    return process.communicate(timeout=500)[0]


def until(condition, process, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def has_checkpoint(tmp_path, run):
    return lambda: any((tmp_path / "studies/x/runs" / run / "checkpoints").glob("step-*"))


def facts(study):
    view = open_study(study)
    return [(t.number, t.state, t.settings, t.values) for t in view.trials], {
        n: v.values for n, v in view.verified.items()
    }


def test_a_killed_worker_is_replaced_and_its_trial_goes_on(start, tmp_path):
    process = start(pause=0.01)
    until(has_checkpoint(tmp_path, "trial-00001-seed-0"), process)
    for worker in psutil.Process(process.pid).children():
        worker.kill()
    output = ended(process)
    assert process.returncode == 0, output
    assert "the worker of trial 1 died (killed by signal 9): another one continues" in output
    view = open_study(tmp_path / "studies/x")
    assert [trial.state for trial in view.trials] == ["finished"] * 3 and view.best_verified is not None
    lines = (tmp_path / "studies/x/runs/trial-00001-seed-0/metrics.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    assert any(event.get("resumed_from") for event in events), "from its checkpoint"


def test_an_interrupted_search_continues_to_the_same_result(start, tmp_path):
    whole = start(pause=0.005)
    ended(whole)
    expected = facts(tmp_path / "studies/x")
    (tmp_path / "studies").rename(tmp_path / "whole")
    for run, number in (("trial-00001-seed-0", signal.SIGINT), ("trial-00002-seed-0", signal.SIGTERM)):
        process = start(pause=0.005)
        until(has_checkpoint(tmp_path, run), process)
        process.send_signal(number)
        output = ended(process)
        assert process.returncode == 128 + number, output
        assert "nothing is lost" in output and "rookery search config.json" in output
    last = start(pause=0.005)
    output = ended(last)
    assert last.returncode == 0, output
    assert facts(tmp_path / "studies/x") == expected
    names = sorted(path.name for path in (tmp_path / "studies/x/runs").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "whole/x/runs").iterdir())


def test_the_supervisor_takes_its_workers_along(start, tmp_path):
    process = start(pause=0.01)
    until(has_checkpoint(tmp_path, "trial-00000-seed-0"), process)
    workers = psutil.Process(process.pid).children()
    process.kill()
    assert workers and not psutil.wait_procs(workers, timeout=20)[1]
    again = start(pause=0.0)
    output = ended(again)
    assert again.returncode == 2 and "world_options" in output, "another world is another study"
    final = start(pause=0.01)
    output = ended(final)
    assert final.returncode == 0, output
    assert len(open_study(tmp_path / "studies/x").of_state("finished")) == 3


def test_a_search_in_which_every_trial_fails_ends_and_says_why(start, tmp_path):
    process = start("raises", n_trials=50, max_failures=2)
    output = ended(process)
    assert process.returncode == 1
    assert "all 2 trials failed" in output and "the floor is wet" in output
    assert "Traceback" in (tmp_path / "studies/x/workers/worker-1.log").read_text()
    assert open_study(tmp_path / "studies/x").trials[0].reason.startswith("seed-0: ValueError: the floor is wet")


def test_a_trial_that_kills_its_workers_fails(start, tmp_path):
    process = start("kills", n_trials=1)
    output = ended(process)
    assert process.returncode == 1, output
    assert output.count("the worker of trial 0 died (") == 2
    trial = open_study(tmp_path / "studies/x").trials[0]
    assert trial.state == "failed" and "3 workers died" in trial.reason


def test_a_trial_with_too_much_memory_fails(start, tmp_path):
    process = start(pause=0.05, n_trials=1, trial_memory="50MB")
    output = ended(process)
    assert process.returncode == 1 and " died " not in output, output
    assert "more than search.trial_memory = 50.0 MiB" in open_study(tmp_path / "studies/x").trials[0].reason


def test_a_timeout_ends_trials_and_verifies_the_best(start, tmp_path):
    """However many trials the machine makes in that time."""
    process = start(pause=0.01, n_trials=1000, timeout="60s")
    output = ended(process)
    assert process.returncode == 0, output
    view = open_study(tmp_path / "studies/x")
    assert len(view.of_state("finished")) < 1000
    if view.of_state("finished"):
        assert view.best_verified is not None and "on held-out seeds" in output
    else:
        assert "no trial has finished in this time" in output


def test_trials_are_runs_that_other_verbs_take(start, tmp_path):
    ended(start(n_trials=1, verify=0))
    run = Path("studies/x/runs/trial-00000-seed-0")
    for words in (["eval", str(run), "--episodes", "2"], ["runs", "--runs-dir", "studies/x/runs"]):
        done = subprocess.run(
            [sys.executable, "-m", "rookery", *words, "--json"], cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
