"""Workers that are forked from the command: each is as good as a new interpreter.

The process of the tests has threads, so that a program of its own forks here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere workers are not forked")

BEGIN = """
import json, os, signal, sys, threading
from rookery.studies.workers.early_start import import_on_one_thread
import_on_one_thread()
import numpy as np
from rookery.forks import kill_group
from rookery.studies.workers.forked_worker import ForkedWorker, can_be_forked
"""


def said_by(code: str) -> dict:
    """What a program says that begins with the imports above."""
    program = [sys.executable, "-c", BEGIN + textwrap.dedent(code)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_worker_has_pipes_a_group_and_random_numbers_of_its_own() -> None:
    said = said_by(
        """
        np.random.seed(0)
        def main():
            told = sys.stdin.readline()
            here = [told, os.getpid(), os.getpgid(0), np.random.random(), sorted(map(int, os.listdir("/proc/self/fd")))]
            print(json.dumps(here), flush=True)
            sys.exit(3)
        assert can_be_forked()
        workers = [ForkedWorker(main), ForkedWorker(main)]
        for worker in workers:
            with worker.stdin as pipe:
                pipe.write(b"hello\\n")
        heard = [json.loads(worker.stdout.read()) for worker in workers]
        for worker in workers:
            worker.stdout.close()
        statuses = [worker.wait() for worker in workers]
        print(json.dumps({"heard": heard, "pids": [w.pid for w in workers], "statuses": statuses}))
        """
    )
    for (told, pid, group, _, open_files), started in zip(said["heard"], said["pids"], strict=True):
        assert told == "hello\n" and pid == group == started
        assert set(open_files) <= {0, 1, 2, 3}  # the last is the folder that is listed
    assert said["statuses"] == [3, 3]
    first, second = (heard[3] for heard in said["heard"])
    assert first != second


def test_one_that_is_killed_is_noticed_with_its_signal() -> None:
    said = said_by(
        """
        import time
        worker = ForkedWorker(lambda: time.sleep(60))
        before = worker.poll()
        kill_group(worker)
        print(json.dumps({"before": before, "after": worker.wait(), "again": worker.poll()}))
        """
    )
    assert said == {"before": None, "after": -9, "again": -9}


def test_one_that_raises_has_failed() -> None:
    said = said_by("print(json.dumps({'status': ForkedWorker(lambda: 1 / 0).wait()}))")
    assert said == {"status": 1}


def test_workers_die_with_the_program() -> None:
    program = BEGIN + "import time\nworker = ForkedWorker(lambda: time.sleep(60))\nprint(worker.pid, flush=True)\n"
    program += "os.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    import psutil

    try:
        psutil.Process(int(done.stdout)).wait(10)
    except psutil.NoSuchProcess:
        pass


def test_a_process_with_threads_or_open_files_is_not_forked() -> None:
    said = said_by(
        """
        clean = can_be_forked()
        with open(__import__("tempfile").mktemp(), "w"):
            with_file = can_be_forked()
        over = threading.Event()
        thread = threading.Thread(target=over.wait)
        thread.start()
        with_thread = can_be_forked()
        over.set()
        thread.join()
        print(json.dumps({"clean": clean, "file": with_file, "thread": with_thread}))
        """
    )
    assert said == {"clean": True, "file": False, "thread": False}
