"""The figures of benchmarks/paper.py: parity, and kills at random moments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_parity_and_a_hundred_kills() -> None:
    """Logs of killed accounts are those of one that was not killed; nothing is ordered twice."""
    command = [sys.executable, str(ROOT / "benchmarks" / "paper.py"), "--bars", "2000", "--kills", "100"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    parity, kills = json.loads(found.stdout)
    assert parity["equal"] and parity["bars"] == 2000 and parity["fills"] > 1000
    assert kills["different_logs"] == kills["orders_twice"] == 0 and kills["accounts"] >= 1
