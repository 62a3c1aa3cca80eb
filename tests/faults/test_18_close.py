"""Fault 18: `close()` with hung envs, twice, at interpreter exit, and never."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rookery
from faults.envs import Act, SlowToClose, Unhurried, Walk
from faults.watch import BACKENDS, SPAWN_SELDOM, START_METHODS, at_most, gone_within, pids_of, play, skip_if_replaced
from rookery.errors import UsageError

pytestmark = pytest.mark.timeout(40)
Make = Callable[..., rookery.Engine]
PATIENCE = 0.5
SLACK = 1.0  # for a busy machine to do the killing


def check_closes(envs: rookery.Engine, seconds: float, **options: object) -> None:
    """close() takes no longer than that, and leaves no worker behind."""
    pids = pids_of(envs)
    with at_most(seconds):
        envs.close(**options)
    assert gone_within(pids, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("act", [Act.SLEEP, Act.SPIN, Act.HOLD_GIL])
@pytest.mark.parametrize("method", START_METHODS)
def test_a_hung_step_does_not_hold_close(make: Make, method: str, act: Act) -> None:
    """close() takes no longer than `close_timeout` when every worker is stuck in a step."""
    envs = make(Walk, 3, "process", 3, close_timeout=PATIENCE, start_method=method)
    envs.reset(seed=1)
    envs.send(np.full(3, act))
    time.sleep(0.1)
    check_closes(envs, PATIENCE + SLACK)


def test_an_env_that_hangs_in_close_does_not_hold_close(make: Make) -> None:
    """The same when the envs' own close() never returns."""
    envs = make(SlowToClose, 4, "process", 2, close_timeout=PATIENCE)
    envs.reset(seed=1)
    check_closes(envs, PATIENCE + SLACK)


def test_many_slow_envs_do_not_hold_close(make: Make) -> None:
    """The same when a worker is not stuck but has a long row of slow envs before it."""
    envs = make(Unhurried, 12, "process", 2, close_timeout=PATIENCE)
    envs.reset(seed=1)
    envs.send(np.zeros(12, np.int64))
    time.sleep(0.1)
    check_closes(envs, PATIENCE + SLACK)


def test_close_can_be_told_how_long_to_wait(make: Make) -> None:
    """`close(timeout=...)` and `close(terminate=True)` work as in Gymnasium's AsyncVectorEnv."""
    for options in ({"timeout": 0.2}, {"terminate": True}):
        envs = make(SlowToClose, 2, "process", 2, close_timeout=30)
        check_closes(envs, 0.2 + SLACK, **options)


def test_a_stopped_worker_does_not_hold_close(make: Make) -> None:
    """Not even a worker that the kernel has stopped."""
    envs = make(Walk, 2, "process", 2, close_timeout=PATIENCE)
    envs.reset(seed=1)
    os.kill(pids_of(envs)[0], signal.SIGSTOP)
    check_closes(envs, PATIENCE + SLACK)


@pytest.mark.parametrize("backend", BACKENDS)
def test_twice_is_once(make: Make, backend: str) -> None:
    """A second close() does nothing, quietly; using a closed engine is a UsageError."""
    envs = make(Walk, 2, backend, 1)
    envs.reset(seed=1)
    envs.close()
    envs.close()
    with pytest.raises(UsageError, match="closed"):
        play(envs, 1)
    with pytest.raises(UsageError, match="closed"):
        envs.reset(seed=1)
    with pytest.raises(UsageError, match="closed"):
        envs.send(np.zeros(2, np.int64))


def test_close_before_reset_and_with_results_on_the_way(make: Make) -> None:
    """close() works on a fresh engine, and while results have not been received."""
    check_closes(make(Walk, 2, "process", 2), 1)
    envs = make(Walk, 2, "process", 2)
    envs.reset(seed=1)
    envs.send(np.zeros(2, np.int64))
    check_closes(envs, 1)


def test_close_after_workers_died(make: Make) -> None:
    """close() of an engine whose workers are dead already is quick and quiet."""
    envs = make(Walk, 2, "process", 2)
    envs.reset(seed=1)
    for pid in pids_of(envs):
        os.kill(pid, signal.SIGKILL)
    with at_most(1):
        envs.close()


@pytest.mark.parametrize("method", SPAWN_SELDOM)
def test_an_engine_that_is_dropped_ends_its_workers(method: str) -> None:
    """When the last reference goes, so do the workers, without close()."""
    envs = rookery.make_vec(Walk, 2, "process", 2, start_method=method)
    envs.reset(seed=1)
    pids = pids_of(envs)
    del envs
    gc.collect()
    assert gone_within(pids, 2)


def test_an_engine_that_is_dropped_ends_its_threads() -> None:
    """So do those of the thread backend."""
    before = set(threading.enumerate())
    envs = rookery.make_vec(Walk, 3, "thread", 3)
    envs.reset(seed=1)
    play(envs, 2)
    del envs
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=2)
        assert not thread.is_alive()


def test_an_engine_that_is_dropped_while_hung_is_bounded(recwarn: pytest.WarningsRecorder) -> None:
    """Dropping an engine in mid-step takes no longer than `close_timeout`, and warns of nothing."""
    envs = rookery.make_vec(Walk, 2, "process", 2, start_method="fork", close_timeout=PATIENCE)
    envs.reset(seed=1)
    envs.send(np.full(2, Act.SLEEP))
    pids = pids_of(envs)
    with at_most(PATIENCE + SLACK):
        del envs
        gc.collect()
    assert gone_within(pids, 0.5)
    assert not recwarn.list


def test_views_outlive_the_engine(make: Make) -> None:
    """With copy=False, an array that was returned can still be read after close()."""
    envs = make(Walk, 2, "process", 2, copy=False)
    observations, _ = envs.reset(seed=1)
    kept = observations.copy()
    envs.close()
    assert observations.tobytes() == kept.tobytes()


# --- at interpreter exit --------------------------------------------------------------------------------------------


def run_script(code: str, seconds: float, strict: bool = True) -> subprocess.CompletedProcess:
    """Run a program of its own that finds the tests' envs, by default with every warning an error."""
    flags = ["-W", "error", "-X", "dev"] if strict else []
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    head = "import numpy as np, os, sys, rookery\nfrom faults.envs import *\n"
    with at_most(seconds):
        return subprocess.run(
            [sys.executable, *flags, "-c", head + textwrap.dedent(code)],
            capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=30, check=False,
        )  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("backend", "method"), [("serial", None), ("thread", None), *[("process", method) for method in START_METHODS]]
)
def test_exit_without_close_is_quiet(backend: str, method: str | None) -> None:
    """A program that never closes its engine ends with status 0 and not a word, even with warnings as errors."""
    skip_if_replaced(method)
    done = run_script(
        f"""
        envs = rookery.make_vec(Walk, 4, {backend!r}, {1 if backend == "serial" else 2}, start_method={method!r})
        envs.reset(seed=1)
        for _ in range(10):
            envs.step(np.zeros(4, int))
        """,
        seconds=20,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("method", START_METHODS)
def test_exit_with_hung_envs_is_bounded_and_quiet(method: str) -> None:
    """So does one whose envs hang at that moment; `close_timeout` bounds the wait."""
    skip_if_replaced(method)
    done = run_script(
        f"""
        import time
        envs = rookery.make_vec(Walk, 2, "process", 2, start_method={method!r}, close_timeout=0.5)
        envs.reset(seed=1)
        envs.send(np.full(2, Act.SLEEP))
        time.sleep(0.2)
        """,
        seconds=20,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_exit_by_an_exception_shows_that_exception_alone() -> None:
    """An error in the program is reported as always; the engine adds nothing to it."""
    done = run_script(
        """
        envs = rookery.make_vec(Walk, 2, "process", 2, start_method="fork")
        envs.reset(seed=1)
        raise ValueError("of the program's own")
        """,
        seconds=20,
    )
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ValueError: of the program's own")
    assert done.stderr.count("Traceback") == 1


@pytest.mark.slow
def test_a_forked_child_that_exits_leaves_the_engine_alone() -> None:
    """A process forked by the user has a copy of the engine; its exit must not end the parent's workers."""
    done = run_script(
        """
        envs = rookery.make_vec(Walk, 2, "process", 2, start_method="spawn")
        envs.reset(seed=1)
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        print(envs.step(np.zeros(2, int))[1].shape)
        """,
        seconds=20,
        strict=False,  # Python itself warns of the parent's child processes in a fork
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "(2,)\n", "")


@pytest.mark.slow
def test_a_forked_child_that_closes_leaves_the_engine_alone() -> None:
    """Nor may a forked child end them by calling close() on its copy."""
    done = run_script(
        """
        envs = rookery.make_vec(Walk, 2, "process", 2, start_method="spawn")
        envs.reset(seed=1)
        child = os.fork()
        if child == 0:
            envs.close()
            os._exit(0)
        os.waitpid(child, 0)
        print(envs.step(np.zeros(2, int))[1].shape)
        """,
        seconds=20,
        strict=False,  # Python itself warns of the parent's child processes in a fork
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "(2,)\n", "")
