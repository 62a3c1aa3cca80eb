"""Workers of a search that import torch while the command does: each takes seconds of a core, one after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from rookery.engine.workers.child_process import ONE_THREAD
from rookery.forks import kill_group
from rookery.training.commands import start_command

# Imports make some 300,000 objects that stay: walking through them again and again takes a second.
CODE = (
    "import gc, sys; gc.set_threshold(10_000, 20, 50); "
    "from rookery.engine.workers.child_process import die_with_parent; "
    "die_with_parent(int(sys.argv.pop(1))); from rookery.studies.workers.trial_worker import main; gc.freeze(); main()"
)
_ready: list[subprocess.Popen[bytes]] = []  # workers without a task


@contextmanager
def started_early(count: int) -> Iterator[None]:
    """Within, so many workers import what they need; those that get no task are ended."""
    try:
        for _ in range(count if hasattr(os, "sched_getaffinity") else 0):  # elsewhere it is untested
            with suppress(OSError):  # there are too many processes
                _ready.append(_start(subprocess.DEVNULL, {}))
        yield
    finally:
        while _ready:
            _end(_ready.pop())


def start_worker(task: Path, log: Path, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A worker for this task, one that has started early if there is one. What it prints goes to the end of `log`, and
    `variables` are added to its environment."""
    while _ready and _ready[0].poll() is not None:  # it has died
        _end(_ready.pop(0))
    if _ready:
        process = _ready.pop(0)
    else:
        with open(log, "ab") as file:
            process = _start(file, variables)
    order = {
        "task": str(task), "log": str(log), "path": [entry for entry in sys.path if isinstance(entry, str)],
        "variables": {**os.environ, **ONE_THREAD, **variables},
    }  # fmt: skip
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:  # if it has died, the supervisor sees that
        pipe.write(json.dumps(order).encode() + b"\n")
    return process


def take_order() -> Path:
    """In the worker: the task it is for, once it is known. It takes on what the program is like by then."""
    line = sys.stdin.readline()
    if not line:  # it is not needed
        os._exit(0)
    order = json.loads(line)
    with open(order["log"], "ab") as log:
        os.dup2(log.fileno(), 2)
    sys.path[:] = order["path"]
    os.environ.clear()
    os.environ.update(order["variables"])
    return Path(order["task"])


def _start(errors: int | IO[bytes], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return start_command(variables={**ONE_THREAD, **variables}, code=CODE, stdin=pipe, stdout=pipe, stderr=errors)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        kill_group(process)
    process.communicate()
