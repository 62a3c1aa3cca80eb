"""`benchmarks/scaling.py`: what it measures, and what it draws."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_worlds_are_measured_and_drawn(tmp_path):
    words = ["--quick", "--only", "cartpole", "1ms", "--envs", "1", "2", "--plot", "plot.png", "--json", "rates.json"]
    command = [sys.executable, str(ROOT / "benchmarks" / "scaling.py"), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    rates = json.loads((tmp_path / "rates.json").read_text())
    cartpole, slow = "CartPole-v1 (Gymnasium's)", "an env of 1 ms"
    assert [(one["world"], one["num_envs"]) for one in rates] == [(cartpole, 1), (cartpole, 2), (slow, 1), (slow, 2)]
    assert all(one["stepping"] > 0 and one["training"] > 0 for one in rates)
    assert rates[2]["stepping"] <= 1000 and "training, steps/s" in done.stdout
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
