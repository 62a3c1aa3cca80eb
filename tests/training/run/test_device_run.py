"""Runs whose envs are on the learner's device. Here that device is the CPU: the GPU's code as plain Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rookery
from rookery.errors import OptionError
from rookery.learners.learner import StepBatch, TensorFinals
from rookery.training.run.device_collector import DeviceCollector
from rookery.training.storage.checkpoint import Checkpoints

OPTIONS: dict[str, Any] = {
    "learner": "ppo",
    "num_envs": 4,
    "steps": 384,
    "seed": 5,
    "ppo": {"rollout_length": 16, "hidden": [8], "minibatches": 2, "epochs": 2},
    "evaluation": {"every": 10_000, "episodes": 1, "max_episodes": 1},
    "monitor": {"verbose": False, "tensorboard": False, "episodes": True},
}
ON_DEVICE = {"backend": "cuda", "device": "cpu"}


def train(folder: Path, name: str, world: str = "rookery/CartPole-v1", **options: Any) -> rookery.Result:
    return rookery.train(world, runs_dir=folder, name=name, **{**OPTIONS, **ON_DEVICE, **options})


def weights_of(folder: Path, name: str) -> np.ndarray:
    _, tree = Checkpoints(folder / name / "checkpoints", 3).load_latest()
    policy = tree["agent"]["policy"]
    return np.concatenate([policy[key].ravel() for key in sorted(policy)])


def test_a_run_on_the_device_has_the_numbers_of_one_on_the_cpu(tmp_path: Path) -> None:
    plain = {**OPTIONS["ppo"], "accelerate": False}
    on_device = train(tmp_path, "device", ppo=plain)
    on_cpu = train(tmp_path, "cpu", ppo=plain, backend="kernel", device="cpu")
    assert on_device.total_steps == on_cpu.total_steps == 384
    assert on_device.episodes == on_cpu.episodes > 4
    np.testing.assert_allclose(weights_of(tmp_path, "device"), weights_of(tmp_path, "cpu"), rtol=1e-3, atol=1e-5)


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path: Path) -> None:
    train(tmp_path, "whole")
    train(tmp_path, "parts", steps=192)
    resumed = rookery.resume("parts", tmp_path, steps=384)
    assert resumed.total_steps == 384
    np.testing.assert_array_equal(weights_of(tmp_path, "whole"), weights_of(tmp_path, "parts"))


@pytest.mark.slow
def test_coloured_noise_is_the_same_everywhere_and_goes_on(tmp_path: Path) -> None:
    """On the device as on the CPU, and in a resumed run."""
    ppo = {**OPTIONS["ppo"], "noise": "pink", "learning_rate_schedule": "constant"}
    pink = {"world": "rookery/Pendulum-v1", "ppo": ppo}
    train(tmp_path, "device", **pink)
    train(tmp_path, "cpu", **pink, backend="kernel", device="cpu")
    train(tmp_path, "parts", **pink, steps=192)
    rookery.resume("parts", tmp_path, steps=384)
    np.testing.assert_allclose(weights_of(tmp_path, "device"), weights_of(tmp_path, "cpu"), rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(weights_of(tmp_path, "device"), weights_of(tmp_path, "parts"))


def test_metrics_and_episodes_are_written(tmp_path: Path) -> None:
    result = train(tmp_path, "run", ppo={**OPTIONS["ppo"], "normalise_observations": True})
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    progress = [line for line in lines if line["kind"] == "progress" and "loss/kl" in line]
    assert progress[-1]["episodes"] == result.episodes
    assert np.isfinite(progress[-1]["episode/return"]) and np.isfinite(progress[-1]["loss/entropy"])
    episodes = (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    assert 0 < len(episodes) <= result.episodes


class Truncating(rookery.Callback):
    """Keeps what the learner was told about the ends of episodes."""

    def on_start(self, run: Any) -> None:
        self.seen: list[TensorFinals] = []
        record = run.learner.record

        def kept(rows: slice, step: StepBatch) -> None:
            assert isinstance(step.finals, TensorFinals) and isinstance(step.rewards, torch.Tensor)
            self.seen.append(TensorFinals(step.finals.ended.clone(), step.truncated.clone()))
            record(rows, step)

        run.learner.record = kept


def test_truncated_episodes_have_a_value_after_their_end(tmp_path: Path) -> None:
    callback = Truncating()
    train(tmp_path, "short", world_options={"time_limit": 7}, callbacks=[callback])
    truncated = torch.stack([finals.observations for finals in callback.seen])
    assert truncated.any() and (truncated <= torch.stack([finals.ended for finals in callback.seen])).all()


def test_a_run_counts_episodes_on_the_device(tmp_path: Path) -> None:
    result = train(tmp_path, "counted", steps=4000, episodes=12)
    assert result.reason == "finished" and result.episodes >= 12 and result.total_steps < 4000


class Adjusting(rookery.Callback):
    """Changes the learning rate after the first update, and gamma after the second."""

    def on_update(self, run: Any, metrics: Any) -> None:
        assert np.isfinite(metrics["kl"])
        run.set_options(**({"learning_rate": 1e-4} if run.learner.updates == 1 else {"gamma": 0.9}))


def test_work_is_captured_again_when_an_option_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = []
    monkeypatch.setattr(DeviceCollector, "release", lambda self: released.append(self.learner.updates))
    train(tmp_path, "adjusted", callbacks=[Adjusting()])
    assert released == [2]


def test_a_backend_on_a_gpu_says_what_is_missing(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(OptionError, match="GPU"):
        train(tmp_path, "none", device="auto")
    with pytest.raises(OptionError, match="mps"):
        train(tmp_path, "none", device="mps")
