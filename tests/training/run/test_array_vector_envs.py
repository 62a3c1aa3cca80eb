"""Training in vector envs of other libraries that return NumPy arrays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import rookery
from rookery.engine.tensor_vector_env import TensorVectorEnv
from rookery.training.resolve.array_envs import ArrayVectorEnv
from training.run.numpy_vector_envs import Counters, DisabledCounters, FakePool, NextStepCounters

QUIET = {"panel": False, "plot": False, "tensorboard": False}


def run_of(world, folder, **options):
    base = {"steps": 96, "runs_dir": str(folder), "monitor": QUIET, "learner": "ppo", "seed": 4}
    small = {"rollout_length": 16, "epochs": 1, "hidden": [8], "threads": 1, "accelerate": False}
    return rookery.train(world, **base, ppo=small, evaluation={"episodes": 1, "every": 10_000}, **options)


def notes(result) -> str:
    lines = map(json.loads, Path(result.path, "metrics.jsonl").read_text().splitlines())
    return "\n".join(line["text"] for line in lines if line["kind"] == "note")


@pytest.mark.parametrize("kind", [Counters, DisabledCounters])
def test_final_observations_are_the_rows_own(kind):
    """Rows end at different steps; the next episode's first observation and the last one's final one are apart."""
    envs = TensorVectorEnv(ArrayVectorEnv(kind()))
    envs.reset(seed=1)
    ends = []
    for _ in range(12):
        observations, rewards, _, truncated, infos = envs.step(torch.tensor([0, 1, 1]))
        for row in torch.nonzero(truncated).ravel().tolist():
            assert infos["final_obs"][row].tolist() == [5.0, row]
            assert observations[row, 0] <= 0
            ends.append(row)
    assert rewards.tolist() == [0.0, 1.0, 1.0]
    assert ends[:3] == [0, 1, 2]


def test_the_step_that_resets_is_no_step_of_an_episode():
    envs = TensorVectorEnv(ArrayVectorEnv(NextStepCounters(1)))
    envs.reset()
    found = [envs.step(torch.tensor([1])) for _ in range(6)]
    assert [bool(step[3]) for step in found] == [False] * 4 + [True, True]
    assert float(found[5][1]) == 0.0 and float(envs.last_returns) == 5.0 and int(envs.last_lengths) == 5


@pytest.mark.parametrize("world", [Counters, NextStepCounters(), FakePool()])
def test_a_run(world, tmp_path):
    result = run_of(world, tmp_path, **({"num_envs": 3} if isinstance(world, type) else {}))
    assert result.total_steps == 96
    said = notes(result)
    assert "object of this Python session" in said
    assert ("fixed when it is made" in said) == isinstance(world, FakePool)
    agent = rookery.load(result.path)
    assert agent.act(np.zeros((2, 2), np.float32)).shape == (2,)


def test_a_resumed_run_says_what_it_cannot(tmp_path):
    result = run_of(Counters(), tmp_path)
    again = rookery.resume(result.path, world=Counters(), steps=192)
    assert again.total_steps == 192
    assert "cannot" in notes(again) and "state" in notes(again)
