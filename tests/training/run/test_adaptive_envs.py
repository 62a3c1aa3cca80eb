"""`num_envs = "adaptive"`: more envs while that pays, every change written down and made again on resuming."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rookery
from rookery.errors import OptionError
from rookery.training.run import adaptive_envs
from rookery.training.run.adaptive_envs import AdaptiveNumEnvs
from training.runs import differences, last_state, small

SLEEPY = """
import time
import numpy as np, gymnasium as gym
class Sleepy(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.uniform(-1, 1, 1).astype(np.float32), {}
    def step(self, action):
        time.sleep(0.001)
        self.t += 1
        return self.np_random.uniform(-1, 1, 1).astype(np.float32), float(action), self.t >= 20, False, {}
"""


class Machine:
    """A machine whose throughput with n envs is known; its clock stands still between steps."""

    def __init__(self, rates: dict[int, float], monkeypatch: pytest.MonkeyPatch) -> None:
        self.rates, self.now, self.steps, self.envs = rates, 0.0, 0, 2
        self.tried = [2]
        monkeypatch.setattr(adaptive_envs.time, "perf_counter", lambda: self.now)

    def run(self, adaptive: AdaptiveNumEnvs, seconds: float) -> int:
        """Let it step for so long; returns how many envs there are in the end."""
        until = self.now + seconds
        while self.now < until:
            self.now += 0.1
            self.steps += int(self.rates[self.envs] * 0.1)
            wanted = adaptive.wanted(self.steps, self.envs)
            if wanted != self.envs:
                self.envs = wanted
                self.tried.append(wanted)
        return self.envs


def test_it_finds_the_number_of_envs_with_the_best_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """It doubles while that pays and returns to the best when it does not."""
    machine = Machine({2: 100, 4: 180, 8: 300, 16: 310, 32: 200}, monkeypatch)
    assert machine.run(AdaptiveNumEnvs(64), 40) == 8
    assert machine.tried == [2, 4, 8, 16, 8]


def test_it_looks_again_when_the_machine_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while more envs are retried."""
    machine = Machine({2: 100, 4: 90, 8: 400, 16: 300}, monkeypatch)
    adaptive = AdaptiveNumEnvs(64)
    assert machine.run(adaptive, 30) == 2
    machine.rates[4] = 200
    assert machine.run(adaptive, 200) == 8


def test_it_stays_within_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """However well more would do."""
    machine = Machine({2: 100, 4: 200, 6: 400}, monkeypatch)
    assert machine.run(AdaptiveNumEnvs(6), 60) == 6


def test_changes_are_made_again_at_the_same_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those after the checkpoint, before anything is measured; a half-written line does not count."""
    log = tmp_path / "num_envs.jsonl"
    log.write_text("[100, 4]\n[500, 8]\n[900, 4]\n[12")
    machine = Machine({2: 100, 4: 100, 8: 100}, monkeypatch)
    adaptive = AdaptiveNumEnvs(64, log, after=100)
    assert [adaptive.wanted(steps, 4) for steps in (200, 499)] == [4, 4]
    assert adaptive.wanted(500, 4) == 8 and adaptive.wanted(600, 8) == 8
    assert adaptive.wanted(901, 8) == 4
    machine.now += 100
    assert adaptive.wanted(1000, 4) == 4  # the first window after this


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["ppo", pytest.param("dqn", marks=pytest.mark.slow)])
def test_a_run_changes_its_envs_and_repeats_it(learner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Envs that sleep are worth having many of. A run started over with the log of another gives the same weights."""
    monkeypatch.setattr(adaptive_envs, "WINDOW", 0.05)
    (tmp_path / "sleepy.py").write_text(SLEEPY)
    options = {"world": f"{tmp_path / 'sleepy.py'}:Sleepy", "num_envs": "adaptive", "backend": "process", "steps": 3000}
    config = small(learner, tmp_path / "runs", name="first") | options
    first = rookery.train(config)
    changes = [json.loads(line) for line in (first.path / "num_envs.jsonl").read_text().splitlines()]
    assert changes and first.num_envs == changes[-1][1]
    notes = [json.loads(line) for line in (first.path / "metrics.jsonl").read_text().splitlines()]
    assert sum(note["kind"] == "note" and "envs ->" in note["text"] for note in notes) == len(changes)

    again = tmp_path / "runs" / "again"
    again.mkdir()
    (again / "config.json").write_bytes((first.path / "config.json").read_bytes())
    (again / "num_envs.jsonl").write_bytes((first.path / "num_envs.jsonl").read_bytes())
    monkeypatch.setattr(adaptive_envs, "WINDOW", 1e9)
    second = rookery.resume(str(again))
    assert second.num_envs == first.num_envs
    assert not differences(last_state(first.path), last_state(second.path))


def test_compiled_worlds_have_no_use_for_it(tmp_path: Path) -> None:
    """They are rejected, with the reason."""
    with pytest.raises(OptionError, match="compiled"):
        rookery.train("rookery/CartPole-v1", num_envs="adaptive", runs_dir=tmp_path)
