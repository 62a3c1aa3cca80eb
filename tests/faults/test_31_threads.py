"""Fault 31: engines made, stepped and closed in four threads at once, of every backend."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from faults.engines_in_threads import CASES
from rookery import once
from rookery.engine.workers.child_process import PORTABLE

NO_FORK = "fork" if not hasattr(os, "fork") or PORTABLE else ""
KERNELS = [case for case in CASES if "kernel" in case]
STARTED = ["forkserver", "spawn"]
THREADS = 8


def run(seconds: float, cases: list[str]) -> None:
    """Four threads in a program of their own: a crash of it must not be one of the tests."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    command = [sys.executable, "-m", "faults.engines_in_threads", str(seconds), *cases]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout} {done.stderr}"


@pytest.mark.slow
def test_kernels_in_four_threads() -> None:
    """All threads need the same compiled code at the same moment: it is loaded once, and nobody's is freed."""
    run(0, KERNELS)


@pytest.mark.slow
def test_envs_in_four_threads() -> None:
    """In this process, in threads of it and in copies of it; also where envs share global generators."""
    run(0, [case for case in CASES if case not in (*KERNELS, *STARTED, NO_FORK)])


@pytest.mark.slow
def test_new_workers_in_four_threads() -> None:
    """Fork servers are new interpreters, as spawned workers are; one thread of the process starts them."""
    run(0, ["spawn" if PORTABLE else "forkserver"])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_minute_of_engines_in_four_threads() -> None:
    """Every backend beside every other."""
    run(60, [case for case in CASES if not (PORTABLE and case in ("fork", "forkserver"))])


# --- what is made once ------------------------------------------------------------------------------------------------


def in_threads(target: object) -> None:
    threads = [threading.Thread(target=target) for _ in range(THREADS)]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_value_is_made_once_by_many_threads() -> None:
    """All get the same object, for the same arguments."""
    calls, results = [], []

    @once.once
    def make(name: str) -> object:
        calls.append(name)
        time.sleep(0.05)  # long enough for all others to come
        return object()

    in_threads(lambda: results.append((make("a"), make("b"))))
    assert sorted(calls) == ["a", "b"]
    assert len(set(results)) == 1


def test_what_raises_is_made_again() -> None:
    """A failure is not kept, and the lock is free after it."""
    calls: list[int] = []

    @once.once
    def make() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError
        return 7

    with pytest.raises(ValueError):
        make()
    results: list[int] = []
    in_threads(lambda: results.append(make()))
    assert results == [7] * THREADS
    assert len(calls) == 2


def test_making_one_thing_may_need_another() -> None:
    """As the code of a world needs that of the poll: in one thread, and beside a thread that needs the other."""
    inner = once.once(lambda: time.sleep(0.02) or "inner")  # type: ignore[func-returns-value]
    outer = once.once(lambda: inner() + " in outer")
    in_threads(lambda: (outer(), inner()))
    assert outer() == "inner in outer"


def test_an_exclusive_function_runs_in_one_thread_at_a_time() -> None:
    """And may call itself."""
    running: list[int] = []
    most: list[int] = []

    @once.exclusive
    def work(again: bool) -> None:
        running.append(1)
        time.sleep(0.005)
        most.append(len(running))
        if again:
            work(False)
        running.pop()

    in_threads(lambda: work(True))
    assert max(most) == 2  # a call and the one inside it


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_that_is_forked_while_a_thread_makes_something_can_make_things() -> None:
    """The fork waits for what is being made, which the child then has."""
    begun = threading.Event()

    @once.once
    def make() -> str:
        begun.set()
        time.sleep(0.2)
        return "made"

    thread = threading.Thread(target=make)
    thread.start()
    begun.wait()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if make._made and once.once(lambda: 3)() == 3 else 1)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
