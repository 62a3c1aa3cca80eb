"""`benchmarks/cluster_rllib.py`: what its rows say."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from cluster_rllib import _made_rows  # noqa: E402
from cluster_runs import Run  # noqa: E402

RATES = {"rookery": np.array([900.0, 800.0]), "rllib": np.array([300.0, 200.0])}
COSTS = {"rookery": np.array([0.0012, 0.0012]), "rllib": np.array([0.0018, 0.0018])}


def test_without_a_bound_both_sides_are_compared() -> None:
    """By steps a second and by CPU time a step."""
    speed, cost = _made_rows("PPO", RATES, COSTS, 5.0)
    assert (speed.value, cost.value) == (pytest.approx(3.5), pytest.approx(1.5))
    assert not speed.passed and not cost.passed


def test_what_the_env_allows_is_told_beside_them() -> None:
    """A goal beyond it is missed, and the next row says why; the env's own time is not a cost of either side."""
    rates = {**RATES, "maximum": np.array([1000.0, 1000.0])}
    speed, most, share, cost = _made_rows("PPO", rates, COSTS, 5.0)
    assert not speed.passed and most.value == pytest.approx((1000 / 300 + 5) / 2)
    assert share.value == pytest.approx(0.85) and share.passed
    assert cost.value == pytest.approx(0.8 / 0.2)


def test_the_env_alone_is_stepped_and_ends_with_its_process(tmp_path: Path) -> None:
    """By as many processes as asked for."""
    command = [sys.executable, str(ROOT / "benchmarks" / "env_maximum.py")]
    run = Run({"runners": 2}, tmp_path, "maximum", command)
    try:
        run.wait_rollouts(4)
        workers = psutil.Process(run.process.pid).children(recursive=True)
        assert run.told[-1][1] >= 400
    finally:
        run.close()
    assert not psutil.wait_procs(workers, timeout=30)[1]
