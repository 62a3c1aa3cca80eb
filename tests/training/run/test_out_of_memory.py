"""When memory runs out, the error names two settings and values that fit; a run continues with less if told so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import rookery
from rookery.errors import MemoryShortage
from rookery.learners.algorithms.dqn import DQN
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.execution.rollout_host import RolloutHost
from rookery.training.run import out_of_memory
from training.runs import small

GPU_ERROR = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.15 GiB"


def run_out(monkeypatch: pytest.MonkeyPatch, learner: type, method: str, fits: Any, error: Any = None) -> None:
    """Let a method of a learner fail for lack of memory while the learner does not fit."""
    plain = getattr(learner, method)

    def limited(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not fits(self):
            raise error or torch.OutOfMemoryError(GPU_ERROR)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(learner, method, limited)


def notes(folder: Path) -> str:
    """All notes of a run."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return "\n".join(json.loads(line).get("text", "") for line in lines)


@pytest.fixture
def ppo(tmp_path: Path) -> dict[str, Any]:
    options = {"rollout_length": 32, "minibatches": 2, "hidden": [8]}
    return small("ppo", tmp_path, num_envs=8, steps=2_048, ppo=options, checkpoints={"every": 512})


def test_ppo_names_batch_and_envs_in_an_update(ppo: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    run_out(monkeypatch, RolloutHost, "learn", lambda execution: False)
    with pytest.raises(MemoryShortage) as error:
        rookery.train(ppo)
    text = str(error.value)
    assert "lower `ppo.batch_size` (128 now, 32 may fit) or `num_envs` (8 now, 4 may fit)" in text
    assert '`on_out_of_memory` = "lower"' in text and "Tried to allocate 20.00 GiB" in text
    summary = json.loads(next(Path(ppo["runs_dir"]).glob("*/summary.json")).read_text())
    assert summary["reason"].startswith("failed: MemoryShortage")


def test_ppo_names_envs_and_length_while_acting(ppo: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    ppo["backend"] = "serial"
    run_out(monkeypatch, PPO, "explore", lambda learner: False)
    with pytest.raises(MemoryShortage, match=r"`num_envs` \(8 now, 4 .*\) or `ppo.rollout_length` \(32 now, 16 "):
        rookery.train(ppo)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] . DefaultCPUAllocator: can't allocate memory"),
        MemoryError("Unable to allocate 3 GiB"),
    ],
)
def test_every_library_is_understood(error: Exception) -> None:
    assert out_of_memory.is_out_of_memory(error)
    assert not out_of_memory.is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))


@pytest.mark.slow
def test_off_policy_learners_name_buffer_and_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small("dqn", tmp_path, steps=600, dqn={"buffer_size": 2_000, "batch_size": 64, "hidden": [8]})
    run_out(monkeypatch, DQN, "__init__", lambda learner: False)
    with pytest.raises(MemoryShortage, match=r"lower `dqn.buffer_size` \(2000 now, 1000 may fit\) or `dqn.batch_size`"):
        rookery.train(config)
    monkeypatch.undo()
    run_out(monkeypatch, DQN, "update", lambda learner: False)
    with pytest.raises(MemoryShortage, match=r"lower `dqn.batch_size` \(64 now, 32 may fit\) or `dqn.buffer_size`"):
        rookery.train(config)


def test_a_run_continues_with_smaller_batches(ppo: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """From its latest checkpoint, and says so. The rest of the run is as it was requested."""
    seen: list[int] = []
    run_out(
        monkeypatch, RolloutHost, "learn", lambda execution: seen.append(execution.learner.updates)
        or execution.learner.updates < 4 or execution.update_rows <= 32,
    )  # fmt: skip
    result = rookery.train(ppo, on_out_of_memory="lower")
    assert result.total_steps == 2_048 and result.reason == "finished" and result.num_envs == 8
    recorded = json.loads((result.path / "config.json").read_text())
    assert recorded["ppo"]["batch_size"] == 32 and recorded["num_envs"] == 8
    assert "memory ran out, so the run continues with ppo.batch_size = 32 instead of 128" in notes(result.path)
    assert seen[0] == 0 and max(seen) == 7, "it has not started over"


@pytest.mark.slow
def test_a_run_continues_with_fewer_envs(ppo: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With its weights, its normalisers and, if recurrent, the memory of the envs that stay."""
    ppo["ppo"] |= {"normalise_rewards": True, "recurrent": 4}
    run_out(monkeypatch, PPO, "begin_rollout", lambda learner: learner.updates < 4 or learner.num_envs <= 4)
    result = rookery.train(ppo, on_out_of_memory="lower")
    assert result.reason == "finished" and result.num_envs == 4 and result.total_steps == 2_048
    assert "num_envs = 4 instead of 8" in notes(result.path)
    again = rookery.resume(result.path, steps=2_304)
    assert again.num_envs == 4 and again.total_steps == 2_304


@pytest.mark.slow
def test_an_off_policy_run_continues_with_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins with a smaller buffer, and continues with smaller batches."""
    config = small("dqn", tmp_path, steps=600, dqn={"buffer_size": 2_000, "batch_size": 64, "hidden": [8]})
    plain = DQN.__init__

    def limited(self: Any, observations: Any, actions: Any, options: Any, *args: Any, **kwargs: Any) -> None:
        if options.buffer_size > 1_000:
            raise torch.OutOfMemoryError(GPU_ERROR)
        plain(self, observations, actions, options, *args, **kwargs)

    monkeypatch.setattr(DQN, "__init__", limited)
    run_out(monkeypatch, DQN, "update", lambda learner: learner.updates < 60 or learner.options.batch_size <= 32)
    result = rookery.train(config, on_out_of_memory="lower")
    assert result.reason == "finished" and result.total_steps == 600
    recorded = json.loads((result.path / "config.json").read_text())["dqn"]
    assert recorded["buffer_size"] == 1_000 and recorded["batch_size"] == 32


def test_a_run_that_cannot_begin_begins_with_less(ppo: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of the attempts that failed."""
    run_out(monkeypatch, RolloutHost, "_new_rollout", lambda execution: execution.learner.num_envs <= 2)
    result = rookery.train(ppo, on_out_of_memory="lower")
    assert result.num_envs == 2 and result.reason == "finished"
    assert len([path for path in Path(ppo["runs_dir"]).iterdir() if path.is_dir()]) == 1


@pytest.mark.slow
def test_there_is_an_end_to_lowering(ppo: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    run_out(monkeypatch, RolloutHost, "_new_rollout", lambda execution: False)
    with pytest.raises(MemoryShortage, match=r"lower `ppo.rollout_length`|even the smallest batch does not fit"):
        rookery.train(ppo, on_out_of_memory="lower")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU with 80 GiB, of which this process uses 60 and others 10."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10 << 30, 80 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 60 << 30)
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 1.0, raising=False)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 55 << 30)


@pytest.mark.parametrize(("asked", "fraction"), [("4.00 GiB", 0.5), ("20.00 GiB", 0.5), ("200.00 GiB", 0.125)])
@pytest.mark.usefixtures("gpu")
def test_what_fits_follows_from_the_memory_of_the_gpu(asked: str, fraction: float) -> None:
    """70 GiB can be had, and some will be needed for what follows."""
    error = torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {asked}. GPU 0 has")
    assert out_of_memory.fraction_that_fits(error, "cuda") == fraction
