"""The clock of a run: its speed and the time that is left."""

from __future__ import annotations

import pytest

from rookery.training.run import timing
from rookery.training.run.timing import RunClock, RunCounts


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that is set by hand."""
    now = [100.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    return now


def test_speeds_are_those_since_the_last_log(ticks: list[float]) -> None:
    clock = RunClock()
    clock.seconds_before = 50.0
    clock.start(RunCounts(1000, 10))
    ticks[0] += 2.0
    assert clock.log(RunCounts(1400, 30)) == {"steps_per_second": 200.0, "episodes_per_second": 10.0, "seconds": 52.0}
    ticks[0] += 4.0
    assert clock.log(RunCounts(1500, 30)) == {"steps_per_second": 25.0, "episodes_per_second": 0.0, "seconds": 56.0}
    assert clock.logged_at(1500) and not clock.logged_at(1501)


def test_the_time_left_does_not_count_what_was_compiled_first(ticks: list[float]) -> None:
    """The first steps of a kernel world may take half a minute, and the next ones a millisecond."""
    clock = RunClock()
    clock.start(RunCounts(0, 0))
    ticks[0] += 30.0
    assert clock.seconds_left(0.1) is None
    ticks[0] += 1.0
    assert clock.seconds_left(0.2) == pytest.approx(8.0)


def test_the_speed_is_that_of_training(ticks: list[float]) -> None:
    """Without what was compiled in the first round, evaluations, and pictures that are drawn at the end."""
    clock = RunClock()
    clock.start(RunCounts(1000, 0))
    ticks[0] += 30.0
    clock.end_round(RunCounts(2000, 10))
    assert clock.log(RunCounts(2000, 10)) == {"steps_per_second": None, "episodes_per_second": None, "seconds": 30.0}
    assert clock.steps_per_second(2000) == pytest.approx(1000 / 30) and clock.start_seconds(2000) == 0.0
    ticks[0] += 5.0
    clock.leave_out(5.0)
    ticks[0] += 2.0
    clock.end_round(RunCounts(3000, 20))
    assert clock.log(RunCounts(3000, 20)) == {"steps_per_second": 500.0, "episodes_per_second": 5.0, "seconds": 37.0}
    clock.end()
    ticks[0] += 20.0
    assert clock.steps_per_second(3000) == 500.0
    assert clock.start_seconds(3000) == 28.0 and clock.evaluation_seconds == 5.0
    assert clock.elapsed == 57.0


def test_a_first_round_as_fast_as_others_took_no_time_to_start(ticks: list[float]) -> None:
    clock = RunClock()
    clock.start(RunCounts(0, 0))
    for steps in (100, 200):
        ticks[0] += 10.0
        clock.end_round(RunCounts(steps, 0))
    assert clock.start_seconds(200) == 0.0 and clock.steps_per_second(200) == 10.0


def test_the_first_log_after_several_rounds_leaves_out_the_first(ticks: list[float]) -> None:
    clock = RunClock()
    clock.start(RunCounts(0, 0))
    for steps, seconds in ((100, 9.0), (200, 1.0)):
        ticks[0] += seconds
        clock.end_round(RunCounts(steps, 0))
    assert clock.log(RunCounts(200, 0))["steps_per_second"] == 100.0
