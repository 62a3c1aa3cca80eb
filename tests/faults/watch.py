"""Helpers of the fault tests: watching processes and the clock, and comparing trajectories."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import psutil
import pytest

import rookery
from rookery.engine.workers.child_process import PORTABLE

START_METHODS = ("spawn", "forkserver", "fork")
QUICKEST_FIRST = ["fork", *[pytest.param(method, marks=pytest.mark.slow) for method in ("spawn", "forkserver")]]
# A spawned worker takes a second of the CPU to start, a forked one a tenth of that. With spawned ones, every push tests
# deaths, hangs and the end of the program; other faults are tested in `make test-all`, as all are where workers are
# started in no other way.
SPAWN_SELDOM = [pytest.param("spawn", marks=[] if PORTABLE else pytest.mark.slow), "forkserver", "fork"]
BACKENDS = ("serial", "thread", "process")
SPAWN_SECONDS = 3.0  # what a new interpreter with its imports takes more than a fork
NO_FORK_SERVER = "portable workers are started by spawn: there is no fork server"
needs_fork_server = pytest.mark.skipif(PORTABLE, reason=NO_FORK_SERVER)
REPLACED = "portable workers are started by spawn instead, and a line says so"
Harm = Mapping[tuple[int, int], int]  # (step, env) -> action
Result = tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]


def skip_if_replaced(method: str | None) -> None:
    """For tests of what a program prints: with portable workers, a start method of Linux is one line more."""
    if PORTABLE and method not in (None, "spawn"):
        pytest.skip(REPLACED)


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """The block must not take longer than this on a machine that starts a process in a tenth of a second."""
    start = time.monotonic()
    seconds += SPAWN_SECONDS if PORTABLE else 0.0
    try:
        yield
    finally:
        took = time.monotonic() - start
    if took > seconds:  # look how slow the machine is at this moment before judging what ran on it
        seconds *= max(1.0, _seconds_of_a_process() / 0.1)
    assert took <= seconds, f"took {took:.2f} s, allowed are {seconds:g} s"


def _seconds_of_a_process() -> float:
    start = time.monotonic()
    subprocess.run([sys.executable, "-S", "-c", ""], check=True)
    return time.monotonic() - start


def alive(pids: list[int]) -> list[int]:
    """Which of these processes still run; a zombie does not."""
    running = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                running.append(pid)
    return running


def gone_within(pids: list[int], seconds: float) -> bool:
    """Whether none of these processes runs any more before the time is up."""
    deadline = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pids)


def pids_of(envs: rookery.Engine) -> list[int]:
    """The processes of the engine's workers, by worker number."""
    return [worker["pid"] for worker in envs.stats()]


@contextlib.contextmanager
def killed_after(seconds: float, pid: int) -> Iterator[None]:
    """SIGKILL `pid` from outside while the block runs (by a process: a thread here would be in the way of fork)."""
    with subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -9 {pid}"]):
        yield


def action_of(env: int, step: int) -> int:
    """What env does in its step: the same in every run."""
    return int(np.random.default_rng((env, step)).integers(2))


def play(envs: rookery.Engine, steps: int, harm: Harm | None = None, first: int = 0) -> list[Result]:
    """Step all envs with their usual actions, except where `harm` says otherwise."""
    results = []
    for step in range(first, first + steps):
        actions = [(harm or {}).get((step, env), action_of(env, step)) for env in range(envs.num_envs)]
        results.append(envs.step(np.array(actions)))
    return results


def undisturbed(world: Any, num_envs: int, steps: int, seed: int, **options: Any) -> list[Result]:
    """What the same play gives in the serial backend when nothing goes wrong."""
    envs = rookery.make_vec(world, num_envs, backend="serial", **options)
    envs.reset(seed=seed)
    results = play(envs, steps)
    envs.close()
    return results


def same(a: Any, b: Any) -> bool:
    """Bit for bit the same array."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def same_rows(results: list[Result], expected: list[Result], rows: list[int]) -> bool:
    """Whether these envs' observations, rewards and flags are the same in two plays, bit for bit."""
    return len(results) == len(expected) and all(
        same(mine[k][rows], theirs[k][rows]) for mine, theirs in zip(results, expected, strict=True) for k in range(4)
    )


def own_shared_memory() -> set[str]:
    """What is in /dev/shm, without what a living process holds that is not of this test, such as a test beside it."""
    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}

    def is_anothers(name: str) -> bool:
        found = re.fullmatch(r"rookery-(\d+)-[0-9a-f]+", name)
        return found is not None and int(found[1]) not in ours and psutil.pid_exists(int(found[1]))

    return {name for name in os.listdir("/dev/shm") if not is_anothers(name)}


def restarted(infos: dict[str, Any]) -> list[int]:
    """Positions that the infos of a step call restarted."""
    return np.flatnonzero(infos.get("restarted", [])).tolist()
