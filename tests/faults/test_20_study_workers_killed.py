"""Fault 20: SIGKILL of a search's worker, and of all of them; a worker that was stopped and wakes up."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from faults.study_watch import wait_until, workers_of

pytestmark = pytest.mark.timeout(300)
REPEATS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))]


@pytest.mark.parametrize("seed", REPEATS)
def test_a_killed_worker_loses_no_trial(seed: int, tmp_path: Path) -> None:
    """Another worker goes on from the checkpoints. No trial is lost, counted twice, or started over."""
    chance = random.Random(seed)
    with workers_of(tmp_path / "study", 3, 6, 0.02) as workers:
        workers.start(2)
        for _ in range(2 if seed else 1):
            begun = len(workers.notes()) + chance.randrange(1, 6)
            wait_until(lambda begun=begun: len(workers.notes()) >= begun)  # type: ignore[misc]
            workers.kill(chance.choice(workers.running))
            workers.start()
        assert [end for end, _ in workers.wait()] == [0, 0]
        workers.check_complete()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_search_of_which_all_workers_were_killed_goes_on(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    with workers_of(tmp_path / "study", 4, 8, 0.02) as workers:
        for _ in range(2):
            workers.start(2)
            begun = len(workers.notes()) + chance.randrange(1, 10)
            wait_until(lambda begun=begun: len(workers.notes()) >= begun)  # type: ignore[misc]
            for worker in list(workers.running):
                workers.kill(worker)
        workers.start(2)
        assert [end for end, _ in workers.wait()] == [0, 0]
        workers.check_complete()


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5])
def test_a_kill_while_the_study_is_made(moment: float, tmp_path: Path) -> None:
    """At any moment, also before the database is complete: the next search makes or continues it."""
    with workers_of(tmp_path / "study", 2, 2, 0.0) as workers:
        workers.start(2)
        time.sleep(moment)
        for worker in list(workers.running):
            workers.kill(worker)
        workers.start(2)
        assert [end for end, _ in workers.wait()] == [0, 0]
        workers.check_complete()


@pytest.mark.slow
def test_a_worker_that_was_stopped_does_not_write_over_the_new_owner(tmp_path: Path) -> None:
    """It wakes up after its lease ran out, finds that another has its trial, and takes another one."""
    with workers_of(tmp_path / "study", 3, 10, 0.05, lease=1.0) as workers:
        workers.start(1)
        wait_until(lambda: len(workers.notes()) >= 3)
        stopped = workers.running[0]
        assert stopped.pid is not None
        os.kill(stopped.pid, signal.SIGSTOP)
        try:
            workers.start(1)
            wait_until(lambda: {note["pid"] for note in workers.notes() if note["trial"] == 0} - {stopped.pid})
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
        workers.harmed += 1
        assert [end for end, _ in workers.wait()] == [0, 0]
        workers.check_complete()


@pytest.mark.slow
def test_many_workers_begin_no_trial_too_many(tmp_path: Path) -> None:
    """Eight at once, with trials that last no time at all."""
    with workers_of(tmp_path / "study", 40, 1, 0.0) as workers:
        workers.start(8)
        assert [end for end, _ in workers.wait(120)] == [0] * 8
        workers.check_complete()
