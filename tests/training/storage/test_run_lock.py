"""One process at a time in a run's folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from rookery.errors import RunBusy, RunError
from rookery.training.storage.run_lock import Lock

HOLD = (
    "import sys, time; from pathlib import Path; "
    "from rookery.training.storage.run_lock import Lock; lock = Lock(Path(sys.argv[1]))"
)


def test_a_second_holder_is_refused_by_pid(tmp_path):
    """Also within the same process, where two runs are as bad."""
    lock = Lock(tmp_path / "run.lock")
    with pytest.raises(RunBusy, match=rf"{tmp_path.name} is in use by process {os.getpid()} on .*, since \d{{4}}-"):
        Lock(tmp_path / "run.lock")
    lock.release()
    lock.release()
    Lock(tmp_path / "run.lock").release()
    assert issubclass(RunBusy, RunError)


def test_a_with_block_lets_go(tmp_path):
    """However it ends."""
    with pytest.raises(ZeroDivisionError), Lock(tmp_path / "run.lock"):
        _ = 1 / 0
    with Lock(tmp_path / "run.lock"):
        pass


def test_reading_and_copying_the_folder_does_not_let_go(tmp_path):
    """A lock of the process's (lockf) would be lost here."""
    (tmp_path / "run").mkdir()
    with Lock(tmp_path / "run" / "run.lock"):
        shutil.copytree(tmp_path / "run", tmp_path / "copy")
        command = [sys.executable, "-c", HOLD, str(tmp_path / "run" / "run.lock")]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert f"RunBusy: {tmp_path / 'run'} is in use by process {os.getpid()}" in ended.stderr


def test_a_forked_child_does_not_hold_it(tmp_path):
    """A worker that outlives us for a moment must not keep the next run out."""
    lock = Lock(tmp_path / "run.lock")
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    try:
        time.sleep(0.2)
        with pytest.raises(RunBusy):
            Lock(tmp_path / "run.lock")  # the child's going does not free it
        lock.release()
        Lock(tmp_path / "run.lock").release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    "contents", [b"", b"\x80", b"[]", b"{}", b'{"pid": -1, "started": 0}', b'{"pid": 1, "started": "x"}']
)
def test_a_holder_that_cannot_be_read_is_another_process(contents, tmp_path):
    """The message is a help, not a need."""
    with Lock(tmp_path / "run.lock"):
        (tmp_path / "run.lock").write_bytes(contents)
        with pytest.raises(RunBusy, match="in use by another process"):
            Lock(tmp_path / "run.lock")


def test_a_reader_that_looks_is_waited_for(tmp_path):
    """Such as the dashboard, which tries a shared lock to see whether the run is at work."""
    path = tmp_path / "run.lock"
    path.touch()
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        timer = threading.Timer(0.03, fcntl.flock, (file, fcntl.LOCK_UN))
        timer.start()
        with Lock(path):
            timer.join()
            assert f'"pid": {os.getpid()}' in path.read_text()
