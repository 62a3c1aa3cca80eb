"""The extrapolation of benchmarks/crypto_search.py."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from rookery.training.storage.run_dir import RunDir

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import crypto_search


def test_hours_follow_from_the_speed_of_all_runs() -> None:
    args = argparse.Namespace(trials=500, steps=100_000)
    found = {"steps": 80_000_000, "seconds": 720.0, "first": 50.0, "finished_trials": 9, "failed_trials": 0}
    usual = found | {"claimed": 16, "gpu": 85.0}
    assert crypto_search.rows(usual, args)[0].value == pytest.approx(0.75)
    assert all(row.passed for row in crypto_search.rows(usual, args))
    for worse in ({"steps": 6_000_000}, {"first": None}, {"failed_trials": 1}, {"claimed": 192}, {"gpu": 20.0}):
        assert sum(not row.passed for row in crypto_search.rows(usual | worse, args)) == 1


def test_trials_that_overlap_are_counted() -> None:
    def trial(begun: int, ended: int | None, state: str = "COMPLETE") -> SimpleNamespace:
        moments = [None if second is None else datetime(2026, 1, 1, 0, 0, second) for second in (begun, ended)]
        return SimpleNamespace(
            datetime_start=moments[0], datetime_complete=moments[1], state=SimpleNamespace(name=state)
        )

    trials = [trial(0, 20, "FAIL"), trial(1, 30), trial(20, 50), trial(40, None, "RUNNING")]
    assert crypto_search.most_at_once(trials) == 2
    assert crypto_search.first_finished(trials) == 30.0
    assert crypto_search.first_finished(trials[:1]) is None


def test_steps_of_runs_that_were_stopped_count(tmp_path: Path) -> None:
    stopped, finished, begun = (RunDir.create(tmp_path, name) for name in ("stopped", "finished", "begun"))
    stopped.metrics.write_text("".join(json.dumps({"step": step}) + "\n" for step in (100, 300)))
    finished.write_summary({"steps": 1000})
    assert [crypto_search.trained_steps(run) for run in (stopped, finished, begun)] == [300, 1000, 0]
