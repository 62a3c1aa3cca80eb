"""Fault 12: SIGKILL of the main process, alone or with its group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from faults.watch import SPAWN_SELDOM, START_METHODS, alive, gone_within

pytestmark = pytest.mark.timeout(40)
MARK = "ROOKERY_VICTIM"


@contextlib.contextmanager
def victim(method: str, act: str, place: str = "main") -> Iterator[tuple[subprocess.Popen, str]]:
    """A program with an engine, in a group of its own; whatever is left of it is removed at the end."""
    mark = uuid.uuid4().hex
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, MARK: mark, "PYTHONPATH": os.pathsep.join([tests, *filter(None, sys.path)])}
    command = [sys.executable, "-m", "faults.victim", method, act, place]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        yield process, mark
    finally:
        process.kill()
        process.wait()
        for pid in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.stdout.close()


def marked(mark: str) -> list[int]:
    """All processes that descend from a victim, by what they inherited from it; no orphan escapes this."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def kill(process: subprocess.Popen, whole_group: bool) -> None:
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("act", "whole_group"),
    [
        pytest.param("STEPPING", False, id="stepping"),
        pytest.param("SLEEP", False, id="asleep"),
        pytest.param("HOLD_GIL", False, id="in C"),
        pytest.param("HOLD_GIL", True, id="in C, with group"),
        pytest.param("IDLE", False, id="idle", marks=pytest.mark.slow),
        pytest.param("IDLE", True, id="idle, with group", marks=pytest.mark.slow),
        pytest.param("STEPPING", True, id="stepping, with group", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("method", START_METHODS)
def test_nothing_remains(method: str, act: str, whole_group: bool) -> None:
    """Whatever the envs are doing, even asleep in C with the GIL held, all processes are gone within two seconds."""
    with victim(method, act) as (process, mark):
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) >= 2
        time.sleep(0.2)
        assert alive(pids) == pids
        kill(process, whole_group)
        assert gone_within(pids, 2), f"still there: {alive(pids)}"
        assert not marked(mark)


@pytest.mark.few(1)
@pytest.mark.parametrize("act", [pytest.param("IDLE", marks=pytest.mark.slow), "SLEEP", "HOLD_GIL"])
@pytest.mark.parametrize("method", SPAWN_SELDOM)
def test_an_engine_made_in_a_short_lived_thread_is_no_exception(method: str, act: str) -> None:
    """Workers outlive the thread that made them, but not the process."""
    with victim(method, act, "thread") as (process, mark):
        pids = [int(pid) for pid in process.stdout.readline().split()]
        time.sleep(0.5)
        assert alive(pids) == pids
        kill(process, whole_group=False)
        assert gone_within(pids, 2), f"still there: {alive(pids)}"
        assert not marked(mark)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "moment", [0.1, pytest.param(0.3, marks=pytest.mark.slow), pytest.param(0.6, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("method", SPAWN_SELDOM)
def test_a_kill_while_workers_start_leaves_none_of_them(method: str, moment: float) -> None:
    """A worker that is still starting when its parent dies finds out and goes."""
    with victim(method, "IDLE") as (process, mark):
        time.sleep(moment)
        kill(process, whole_group=False)
        deadline = time.monotonic() + 2
        while marked(mark) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not marked(mark)
