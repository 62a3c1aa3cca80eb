"""The extrapolation of benchmarks/crypto_search.py."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

from rookery.training.storage.run_dir import RunDir

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import crypto_search


def test_hours_follow_from_the_speed_of_all_runs() -> None:
    args = argparse.Namespace(trials=500, steps=100_000)
    found = crypto_search.row({"steps": 60_000_000, "seconds": 720.0}, args)
    assert found.value == pytest.approx(1.0) and found.passed
    assert not crypto_search.row({"steps": 6_000_000, "seconds": 720.0}, args).passed


def test_steps_of_runs_that_were_stopped_count(tmp_path: Path) -> None:
    stopped, finished, begun = (RunDir.create(tmp_path, name) for name in ("stopped", "finished", "begun"))
    stopped.metrics.write_text("".join(json.dumps({"step": step}) + "\n" for step in (100, 300)))
    finished.write_summary({"steps": 1000})
    assert [crypto_search.trained_steps(run) for run in (stopped, finished, begun)] == [300, 1000, 0]
