"""Fault 7: a worker killed because memory ran out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest

import rookery
from faults.envs import Act, Walk
from faults.watch import at_most, play, restarted, same_rows, undisturbed
from rookery.errors import WorkerDied

pytestmark = pytest.mark.timeout(30)
Make = Callable[..., rookery.Engine]


def kernel_counts(monkeypatch: pytest.MonkeyPatch, *counts: int) -> None:
    """What the kernel's counter of such kills shows, look by look; the last one stays."""
    shown: Iterator[int] = chain(counts, repeat(counts[-1]))
    monkeypatch.setattr("rookery.engine.process.oom_kills", lambda: next(shown))
    monkeypatch.setattr("rookery.engine.worker_restarts.oom_kills", lambda: next(shown))


def test_the_message_says_that_memory_ran_out(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the kernel counted one more kill for memory, WorkerDied says so and names envs and signal."""
    kernel_counts(monkeypatch, 4, 5)
    envs = make(Walk, 4, "process", 2)
    envs.reset(seed=1)
    with at_most(1), pytest.raises(WorkerDied, match=r"envs 2-3.*killed for memory.*SIGKILL"):
        play(envs, 1, {(0, 3): Act.SIGKILL})


def test_a_kill_that_was_not_counted_is_not_blamed_on_memory(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the kernel's word memory is mentioned as a possibility, not as a fact."""
    kernel_counts(monkeypatch, 4)
    envs = make(Walk, 2, "process", 2)
    envs.reset(seed=1)
    with pytest.raises(WorkerDied, match="if nobody sent it, it was for memory"):
        play(envs, 1, {(0, 1): Act.SIGKILL})


def test_restart_works_as_for_any_other_kill(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """With on_failure="restart" the worker is replaced, the others bit-identical."""
    kernel_counts(monkeypatch, 4, 5)
    envs = make(Walk, 4, "process", 2, on_failure="restart")
    envs.reset(seed=1)
    with at_most(5):
        results = play(envs, 10, {(3, 3): Act.SIGKILL})
    assert restarted(results[3][4]) == [2, 3]
    assert same_rows(results, undisturbed(Walk, 4, 10, seed=1), [0, 1])
