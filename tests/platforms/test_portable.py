"""Workers that need nothing of Linux: the rest of what they must do is said by the suites that run over them too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from platforms import like_windows

ROOT = Path(__file__).parents[2]
KILLS = "import portable; [row] = portable.kills({count}); print(int(row.value))"


@pytest.mark.slow
def test_an_engine_needs_no_name_that_windows_lacks(tmp_path: Path) -> None:
    """Worker processes give the serial backend's numbers without memfd, eventfd, pidfd, fork, poll and the like."""
    ran = like_windows.run(tmp_path)
    assert ran.stdout == "as the serial backend\n", ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(400)])])
def test_a_kill_of_the_whole_group_leaves_nothing(count: int) -> None:
    """Neither processes nor files in memory, five seconds later."""
    ran = subprocess.run(
        [sys.executable, "-c", KILLS.format(count=count)], cwd=ROOT / "benchmarks", capture_output=True, text=True
    )
    assert ran.stdout == f"{count}\n", ran.stderr
