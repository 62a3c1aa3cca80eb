"""What a run measures of its machine."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from monitor.test_gpu_figures import FakeCuda
from rookery.config import build_config
from rookery.training.run.outputs import system_figures
from training.runs import QUIET, train


class Learner(SimpleNamespace):
    bytes_to_fill = 0


def figures_on(device: str) -> tuple[dict[str, float], list[str]]:
    config = build_config({"world": "CartPole-v1", "device": device})
    learner: Any = Learner()
    system = system_figures(config, learner)
    assert system is not None
    return system.sample([]), system.take_notes()


def put_gpus(monkeypatch: pytest.MonkeyPatch, cuda: FakeCuda) -> None:
    for name in ("utilization", "mem_get_info", "power_draw"):
        monkeypatch.setattr(torch.cuda, name, getattr(cuda, name))


def test_the_gpu_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a run that uses one asks about it."""
    cuda = FakeCuda()
    put_gpus(monkeypatch, cuda)
    found, notes = figures_on("cpu")
    assert not cuda.asked and not notes and not any("gpu" in name for name in found)
    found, notes = figures_on("cuda:1")
    assert cuda.asked == {1} and found["system/gpu_memory"] == 3e9 and not notes


def test_a_gpu_without_the_package_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    put_gpus(monkeypatch, FakeCuda(gpu=ModuleNotFoundError("nvidia-ml-py"), power=ModuleNotFoundError("nvidia-ml-py")))
    found, notes = figures_on("cuda")
    assert found["system/memory"] > 1e6 and len(notes) == 1 and "rookery[gpu]" in notes[0]
    assert found["system/gpu_memory"] == 3e9 and "system/gpu" not in found


def progress_of(run: Path) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [event for event in events if event["kind"] == "progress"]


def test_memory_of_the_run_and_of_each_worker_is_in_the_metrics(tmp_path: Path) -> None:
    result = train("ppo", tmp_path, backend="process", workers=2, steps=256)
    first = progress_of(result.path)[0]
    parts = [first[f"system/memory_{whose}"] for whose in ("main", "worker_0", "worker_1")]
    assert all(part > 1e6 for part in parts) and first["system/memory"] == sum(parts)


def test_no_figures_if_the_config_says_so(tmp_path: Path) -> None:
    result = train("ppo", tmp_path, steps=128, monitor={**QUIET, "system": False})
    assert not any(name.startswith("system/") for event in progress_of(result.path) for name in event)


def test_a_replay_buffer_is_expected_to_fill() -> None:
    """Its pages are taken from the system only as transitions come."""
    from gymnasium.spaces import Box, Discrete

    from rookery.learners.registry import make_learner, option_classes

    options = option_classes()["dqn"](buffer_size=1000, hidden=[8])
    learner = make_learner("dqn", Box(-1, 1, (5,)), Discrete(2), options, 2, 0, "cpu")
    assert learner.bytes_to_fill >= 1000 * 2 * 5 * 4
    ppo = make_learner("ppo", Box(-1, 1, (5,)), Discrete(2), option_classes()["ppo"](hidden=[8]), 2, 0, "cpu")
    assert ppo.bytes_to_fill == 0
