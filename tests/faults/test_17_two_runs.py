"""Fault 17: two runs in one folder."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.errors import RunBusy
from rookery.training.storage.run_dir import RunDir

pytestmark = pytest.mark.timeout(60)


@contextlib.contextmanager
def holders(run: RunDir, count: int) -> Iterator[list[subprocess.Popen]]:
    """So many programs that want to work in one run's folder, all ended afterwards."""
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, *filter(None, sys.path)])}
    command = [sys.executable, "-m", "faults.saver", "--hold", str(run.path)]
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.slow
def test_of_four_one_runs(tmp_path: Path) -> None:
    """The others refuse, and name the one."""
    run = RunDir.create(tmp_path, "run")
    with holders(run, 4) as processes:
        said = [process.stdout.readline() for process in processes]
        (runs,) = [process for process, line in zip(processes, said, strict=True) if line == "holding\n"]
        refused = [line for line in said if line.startswith("refused")]
        assert len(refused) == 3
        assert all(f"{run.path} is in use by process {runs.pid} on " in line for line in refused)
        with pytest.raises(RunBusy, match=f"process {runs.pid}"):
            run.lock()


def test_a_lock_of_a_killed_process_is_recovered(tmp_path: Path) -> None:
    """At once, again and again; nobody has to remove a file."""
    run = RunDir.create(tmp_path, "run")
    for _ in range(3):
        with holders(run, 1) as (process,):
            assert process.stdout.readline() == "holding\n"
            with pytest.raises(RunBusy):
                run.lock()
            process.kill()
            process.wait()
            run.lock().release()


def test_workers_of_a_killed_run_do_not_keep_it_locked(tmp_path: Path) -> None:
    """A process that was forked from the holder lives on; the folder is free all the same."""
    run = RunDir.create(tmp_path, "run")
    program = f"""
import os, time
from pathlib import Path
from rookery.training.storage.run_dir import RunDir
lock = RunDir(Path({str(run.path)!r})).lock()
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(100)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        try:
            process.kill()
            process.wait()
            os.kill(child, 0)  # it is there
            with run.lock(), pytest.raises(RunBusy, match=f"in use by process {os.getpid()}"):
                run.lock()
        finally:
            os.kill(child, 9)
