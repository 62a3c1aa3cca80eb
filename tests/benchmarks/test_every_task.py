"""`benchmarks/every_task.py`: its goals, its intervals, and the share of tasks that reach theirs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import every_task
from engine_rows import Row


def test_a_goal_is_a_standard_error_below_the_mean() -> None:
    assert every_task.Published(-100.0, 50.0, 25, "DQN").goal == pytest.approx(-110.0)


def test_an_interval_holds_the_figure_and_grows_with_the_spread() -> None:
    near, far = (
        every_task.interval(np.array([9.0, 10, 10, 10, 11])),
        every_task.interval(np.array([0.0, 5, 10, 15, 20])),
    )
    assert near[0] <= 10 <= near[1] and far[0] < near[0] and far[1] > near[1]
    assert every_task.interval(np.full(5, 3.0)) == (3.0, 3.0)


def test_tasks_without_a_goal_do_not_count() -> None:
    rows = [Row("a", "", "", 2.0, 1.0), Row("b", "", "", 0.0, 1.0), Row("c", "", "", 0.0, -np.inf)]
    (share,) = every_task.share_row(rows)
    assert share.value == 50.0 and not share.passed
    assert every_task.share_row(rows[2:]) == []


def test_runs_that_have_ended_are_not_made_again(tmp_path: Path) -> None:
    """Unless they were made in another way."""
    file = tmp_path / "runs.jsonl"
    file.write_text('{"task": "T", "seed": 1, "how": {"device": "cpu", "set": []}, "return": 5.0}\n')
    assert list(every_task.Table(file, "cpu", []).ended()) == [("T", 1)]
    assert every_task.Table(file, "cpu", ["workers=1"]).ended() == {}
