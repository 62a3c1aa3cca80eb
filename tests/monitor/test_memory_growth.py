"""Memory that grows steadily is told once; memory that only moves is not."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from rookery.monitor.system_figures import MemoryGrowth

GB = 1e9
HOUR = 3600.0


def told(memory: Callable[[float], float], hours: float = 1.0, every: float = 2.0, expected: float = 0.0) -> list[str]:
    """What is said of memory that is a function of the seconds."""
    growth = MemoryGrowth("workers", expected)
    times = [every * k for k in range(int(hours * HOUR / every))]
    return [text for at in times if (text := growth.add(at, memory(at), 4 * GB))]


def test_a_leak_is_told_once_with_what_it_means() -> None:
    """10 MB a second, and 4 GB free: under seven minutes."""
    (text,) = told(lambda at: 1 * GB + 1e7 * at)
    assert text.startswith("the memory of the workers grows steadily, from 1.")
    assert text.endswith("the 4.0 GB that are free would last 6 min 40 s more")


def test_a_slow_leak_is_found_later() -> None:
    """100 MB an hour ends a run of two days."""
    assert not told(lambda at: 1 * GB + 1e8 * at / HOUR, hours=1.5)
    assert len(told(lambda at: 1 * GB + 1e8 * at / HOUR, hours=12, every=30.0)) == 1


def test_a_leak_that_begins_late_is_found() -> None:
    assert len(told(lambda at: 1 * GB + max(0.0, at - HOUR) * 5e6, hours=4, every=10.0)) == 1


def test_a_leak_is_found_under_memory_that_comes_and_goes() -> None:
    """A point is the least of its span."""
    assert len(told(lambda at: 1 * GB + 1e6 * at + 5e8 * (math.sin(at) > 0), hours=2)) == 1


@pytest.mark.parametrize(
    "memory",
    [
        lambda at: 3 * GB,
        lambda at: 1 * GB + 3 * GB * (at > 600),  # a step: something was loaded
        lambda at: 1 * GB + 2 * GB * (1 - math.exp(-at / 90)),  # caches that fill
        lambda at: 1 * GB + 1 * GB * (at % 200) / 200,  # collected now and then
        lambda at: 1 * GB + 1 * GB * math.sin(at / 20),
        lambda at: 40 * GB + 1e6 * at,  # 3.6 GB in an hour: not much of 40
        lambda at: 10e6 + 1e4 * at,  # 36 MB in an hour: five times as much, and nothing
    ],
)
def test_other_changes_are_not_told(memory: Callable[[float], float]) -> None:
    assert not told(memory)


def test_a_buffer_that_fills_is_no_leak() -> None:
    """2 GB over an hour, as its size says; without that, it would be one."""

    def fills(at: float) -> float:
        return 1 * GB + 2 * GB * at / HOUR

    assert told(fills) and not told(fills, expected=2 * GB)


def test_more_envs_are_no_leak() -> None:
    """After a change, watching starts over."""
    growth = MemoryGrowth("workers")
    for k in range(100):
        if k % 4 == 0:
            growth.restart()
        assert not growth.add(20.0 * k, 1 * GB + 5e8 * k, 4 * GB)
