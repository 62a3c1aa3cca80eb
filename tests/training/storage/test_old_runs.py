"""Runs and agents that were made by an earlier version are loaded, played and resumed as if they were of today."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import rookery

OLD = Path(__file__).parents[2] / "data" / "old_runs"  # made by the commands in its README.md
RUNS = {"ppo": 4096, "sac": 600, "league": 1200}


@pytest.mark.parametrize("name", RUNS)
def test_an_old_agent_answers_as_it_did(name: str) -> None:
    """The actions that it took when it was made, for observations that were kept with it."""
    kept = json.loads((OLD / "answers.json").read_text())[name]
    agent = rookery.load(OLD / name)
    observations = np.array(kept["observations"], np.float32)
    np.testing.assert_allclose(agent.act_batch(observations, deterministic=True), kept["actions"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["ppo", "sac", pytest.param("league", marks=pytest.mark.slow)])
def test_an_old_run_is_resumed(tmp_path: Path, name: str) -> None:
    """From its last checkpoint, with replay, curriculum and league, to as many steps again."""
    shutil.copytree(OLD / name, tmp_path / name)
    result = rookery.resume(tmp_path / name, steps=RUNS[name] * 2)
    assert result.total_steps >= RUNS[name] * 2
    steps = [json.loads(line)["step"] for line in (tmp_path / name / "evaluations.jsonl").read_text().splitlines()]
    assert steps[0] < RUNS[name] < steps[-1]
