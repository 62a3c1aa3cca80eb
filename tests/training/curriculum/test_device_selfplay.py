"""Runs with opponents whose envs are on the learner's device. Here that device is the CPU: the GPU's code in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rookery
from training.runs import QUIET, SMALL, differences, last_state

ECHO = f"{Path(__file__).parents[1] / 'echoes' / 'world.py'}:Echo"
PHASES = [
    {"steps": 64, "opponents": ["self", "none"], "shaping": {"done_by_other": {"start": 1.0, "fall": 9}}},
    {"opponents": ["archive", "self", "latest"], "mixture": [{"options": {"level": 1.0}}, {}]},
]


def train(folder: Path, name: str, **options: Any) -> rookery.Result:
    own = {
        "learner": "ppo",
        "num_envs": 4,
        "steps": 192,
        "ppo": {"rollout_length": 8, "hidden": [8], "epochs": 1},
        "evaluation": {"every": 10_000, "episodes": 1, "max_episodes": 1, "opponents": ["none"]},
        "checkpoints": {"every": 32, "keep": 100},
        "league": {"every": 48},
        "phases": PHASES,
    }
    given = {"monitor": QUIET, **own, "backend": "cuda", "device": "cpu", **options}
    return rookery.train(ECHO, runs_dir=folder, name=name, **given)


@pytest.mark.slow
@pytest.mark.usefixtures("plain_python")
def test_self_play_resumed_anywhere_equals_uninterrupted(tmp_path):
    """In the middle of either phase, with past agents and copies in play."""
    whole = train(tmp_path, "whole")
    assert whole.episodes > 20
    train(tmp_path, "parts", steps=32)
    for steps in (128, 192):
        rookery.resume("parts", tmp_path, steps=steps)
    assert not differences(last_state(tmp_path / "whole"), last_state(tmp_path / "parts"))


@pytest.mark.slow
@pytest.mark.usefixtures("plain_python")
def test_phases_have_as_many_episodes_as_on_the_cpu(tmp_path):
    """Episodes that are aborted at the end of a phase, or end after its last one, are not counted."""
    phases = [
        {"episodes": 13, "opponents": ["random"]},
        {"episodes": 9, "opponents": ["random"], "options": {"level": 1.0}},
    ]
    results = [
        train(tmp_path, backend, backend=backend, phases=phases, num_envs=3, steps=10_000)
        for backend in ("cuda", "kernel")
    ]
    assert results[0].episodes == results[1].episodes == 22
    assert results[0].total_steps == results[1].total_steps


@pytest.mark.slow
def test_learners_with_a_replay_buffer_play_too(tmp_path):
    """Phases end between two rounds of steps, and games are counted."""
    result = train(tmp_path, "run", learner="sac", sac=SMALL["sac"])
    assert result.total_steps == 192 and result.episodes > 20
