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
