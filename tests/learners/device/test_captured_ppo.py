"""The captured PPO and PQN: the plain learner's numbers, for networks of every kind. A CPU calls what a GPU replays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from learners.device.held_together import KINDS, fill, make
from rookery.learners.accelerator import Accelerator
from rookery.learners.execution.rollout_device import CapturedPPO, CapturedRollout
from rookery.learners.execution.rollout_host import EarlyStop
from rookery.learners.learner import StepBatch

ENVS, STEPS = 4, 5


def pair(kind, **options):
    """A plain learner, and one that is accelerated as on a GPU."""
    plain, captured = (make(kind, "cpu", ENVS, STEPS, accelerate=False, **options) for _ in range(2))
    captured.accelerator = (CapturedRollout if kind.startswith("pqn") else CapturedPPO)(captured)
    return plain, captured


@pytest.mark.push("normalised", "recurrent")
@pytest.mark.parametrize("kind", KINDS)
def test_updates_are_those_of_the_plain_learner(kind):
    plain, captured = pair(kind)
    for seed in range(2):
        metrics = []
        for ppo in (plain, captured):
            fill(ppo, seed)
            metrics.append(ppo.update())
        assert metrics[0] == pytest.approx(metrics[1], rel=2e-3, abs=2e-5)
    torch.testing.assert_close(captured.adam.flat, plain.adam.flat, rtol=1e-3, atol=2e-5)
    assert torch.equal(captured.generator.get_state(), plain.generator.get_state())


@pytest.mark.slow
def test_values_are_stored_while_acting():
    _, captured = pair("image")
    fill(captured, 1)
    stored = captured.rollout.values.clone()
    captured.rollout.values = None
    torch.testing.assert_close(captured.acted_values(), stored, rtol=1e-4, atol=1e-5)


@pytest.mark.push("recurrent")
@pytest.mark.parametrize("kind", ["recurrent", pytest.param("image", marks=pytest.mark.slow), "pqn_image"])
def test_envs_that_return_arrays_give_the_same(kind):
    """In two groups; last observations that come one by one are evaluated before the update."""
    plain, captured = pair(kind)
    random, half = np.random.default_rng(4), ENVS // 2
    (leaf,) = plain.leaves

    def observe(count: int) -> np.ndarray:
        numbers = random.normal(size=(count, *leaf.shape))
        return (numbers * 255).astype(np.uint8) if leaf.byte else numbers.astype(np.float32)

    for k in range(4 * STEPS):
        rows = slice(k % 2 * half, k % 2 * half + half)
        seen, then, rewards = observe(half), observe(half), random.normal(size=half)
        terminated, truncated = random.random((2, half)) < 0.3
        ended = np.flatnonzero(terminated | truncated)
        finals = (ended, list(observe(len(ended)))) if len(ended) else None
        for ppo in (plain, captured):
            assert isinstance(ppo.explore(seen, rows), np.ndarray)
            ppo.record(rows, StepBatch(then, rewards, terminated, truncated, finals))
        if plain.ready():
            assert plain.update() == pytest.approx(captured.update(), rel=2e-3, abs=2e-5)
    torch.testing.assert_close(captured.adam.flat, plain.adam.flat, rtol=1e-3, atol=2e-5)


@pytest.mark.slow
def test_a_started_rollout_continues_on_another_device():
    """Without its stored values where these are not filled: they are computed for all steps."""
    plain, captured = pair("dict")
    fill(captured, 1)
    plain.load(captured.state())
    assert plain.rollout.values is None and plain.ready()
    assert plain.update() == pytest.approx(captured.update(), rel=2e-3, abs=2e-5)


def test_changed_options_and_memory_need_another_graph(monkeypatch):
    _, captured = pair("recurrent")
    released = []
    monkeypatch.setattr(captured.accelerator._update.call, "release", lambda: released.append(1))

    def update() -> int:
        fill(captured, 1)
        captured.update()
        return len(released)

    assert update() == 1 and update() == 1
    captured.adjust({"entropy": 0.1})
    assert update() == 2
    captured.adjust({"learning_rate": 0.1})  # a tensor; but whatever else changes, the options say
    assert update() == 3
    captured.load(captured.state())
    assert update() == 3
    captured.resize(ENVS + 1)
    assert update() == 4


def test_it_is_for_gpus():
    plain = make("image", "cpu", 2, 2)
    assert not CapturedPPO.supports(plain) and not isinstance(plain.accelerator, CapturedPPO)
    assert not Accelerator(plain).stores_values


def test_epochs_after_a_stop_change_nothing_on_a_gpu(monkeypatch):
    """The same epochs count as where the host decides; the others are made, and skipped step by step."""
    epochs = [torch.tensor([kl, kl + 1]) for kl in (0.1, 0.4, 0.2, 0.9)]
    host, device = EarlyStop(0.3, torch.device("cpu")), EarlyStop(0.3, torch.device("cpu"))
    device._stops = [torch.zeros(())]  # as on a GPU
    assert [host.ends_with(metrics) for metrics in epochs[:2]] == [False, True] and host.stop is None
    stops = []
    for metrics in epochs:
        stops.append(float(device.stop))
        assert not device.ends_with(metrics)
    assert stops == [0.0, 0.0, 1.0, 1.0]
    torch.testing.assert_close(device.metrics(), host.metrics())


@pytest.mark.slow
def test_what_kernels_compute_is_that_of_the_plain_learner():
    pytest.importorskip("triton")
    command = [sys.executable, "-W", "ignore", "-m", "learners.device.compare_captured_ppo"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert found.returncode == 0, found.stderr[-2000:]
