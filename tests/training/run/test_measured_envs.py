"""How many envs a run on a GPU gets if it may choose: by rate, memory and the length of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import rookery
from rookery.training.run import measured_envs
from rookery.training.run.measured_envs import EnvsTrial, choose, measure_envs

GIB = 1 << 30


@pytest.fixture(autouse=True)
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine all trials may take longer than measuring should: that is a test of its own."""
    monkeypatch.setattr(measured_envs, "BUDGET", float("inf"))
    monkeypatch.setattr(measured_envs, "release_memory", lambda: None)


class Gpu:
    """A GPU whose rate grows up to some number of envs, with some bytes per env."""

    def __init__(self, full_at: int = 10_000, memory: int = 8 * GIB, each: int = 1 << 16) -> None:
        self.full_at, self.memory, self.each = full_at, memory, each
        self.tried: list[int] = []

    def attempt(self, envs: int) -> EnvsTrial:
        self.tried.append(envs)
        if envs * self.each > self.memory:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return EnvsTrial(envs, 1e4 * min(envs, self.full_at), envs * self.each)

    def chosen(self, most: int = 1 << 20) -> int:
        return choose(measure_envs(self.attempt, most, self.memory))


def test_more_envs_are_tried_while_they_are_faster() -> None:
    """And the fewest are taken that are about as fast."""
    gpu = Gpu(full_at=10_000)
    assert gpu.chosen() == 16_384
    assert gpu.tried == [256, 1_024, 4_096, 16_384, 65_536]
    assert choose([EnvsTrial(256, 90.0, 1), EnvsTrial(1_024, 95.0, 1), EnvsTrial(4_096, 99.0, 1)]) == 256


def test_a_run_has_no_more_envs_than_its_length_can_use() -> None:
    gpu = Gpu()
    assert gpu.chosen(most=512) == 512 and gpu.tried == [256, 512]
    assert Gpu().chosen(most=16) == 16


def test_nothing_is_tried_that_memory_cannot_hold() -> None:
    """Memory is predicted from what the last trial took."""
    gpu = Gpu(full_at=1 << 30, memory=GIB, each=1 << 18)
    assert gpu.chosen() == 2_048
    assert gpu.tried == [256, 1_024, 2_048], "4,096 envs would take all of it"


def test_running_out_of_memory_steps_back() -> None:
    """Where the prediction was wrong: to what has worked, and if nothing has, to fewer."""
    gpu = Gpu(full_at=1 << 30, memory=GIB, each=1 << 18)
    assert choose(measure_envs(gpu.attempt, 1 << 20, 100 * GIB)) == 4_096
    assert gpu.tried[-1] == 16_384
    gpu = Gpu(full_at=1 << 30, memory=GIB, each=1 << 24)
    assert gpu.chosen() == 32 and gpu.tried == [256, 64, 16, 32]
    assert choose(measure_envs(Gpu(memory=1).attempt, 1 << 20, 1)) == 1


def test_other_errors_pass() -> None:
    def broken(envs: int) -> EnvsTrial:
        raise RuntimeError("CUDA error: device-side assert triggered")

    with pytest.raises(RuntimeError, match="device-side assert"):
        measure_envs(broken, 1 << 20, GIB)


def test_measuring_takes_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_envs, "BUDGET", -1.0)
    gpu = Gpu()
    assert gpu.chosen() == 256 and gpu.tried == [256]


@pytest.mark.slow
def test_a_run_measures_once_and_remembers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU in place of a GPU. The second run of the same command has the same number without measuring."""
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(measured_envs, "TIMED", 0.0)
    tried: list[int] = []
    plain = measured_envs._try
    monkeypatch.setattr(measured_envs, "_try", lambda run, envs: tried.append(envs) or plain(run, envs))
    options: dict[str, Any] = {
        "learner": "ppo", "backend": "cuda", "device": "cpu", "steps": 128, "runs_dir": tmp_path,
        "ppo": {"rollout_length": 64, "hidden": [8], "epochs": 1},
        "evaluation": {"episodes": 1, "max_episodes": 1, "every": 10_000}, "monitor": {"verbose": False},
    }  # fmt: skip
    first = rookery.train("rookery/CartPole-v1", num_envs="auto", **options)
    assert tried == [8] and first.num_envs == 8, "512 rows of an update, in rollouts of 64"
    assert json.loads((first.path / "config.json").read_text())["num_envs"] == 8
    second = rookery.train("rookery/CartPole-v1", num_envs="auto", **options)
    assert tried == [8] and second.num_envs == 8
    rookery.train("rookery/CartPole-v1", num_envs=2, **options)
    assert tried == [8], "a number that was given is taken"
