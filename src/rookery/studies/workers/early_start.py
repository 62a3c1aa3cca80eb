"""Workers of a search that have torch imported before the search needs them: each would take seconds of a core for it.

The command imports what a worker needs once, and forks its workers from itself while it is as clean as a new process.
Elsewhere, such as in a program that calls `rookery.search`, each worker is a new interpreter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from rookery.engine.workers.child_process import ONE_THREAD
from rookery.forks import kill_group
from rookery.studies.workers.forked_worker import ForkedWorker, can_be_forked
from rookery.training.commands import start_command

# Imports make some 300,000 objects that stay: walking through them again and again takes a second.
CODE = (
    "import gc, sys; gc.set_threshold(10_000, 20, 50); "
    "from rookery.engine.workers.child_process import die_with_parent; "
    "die_with_parent(int(sys.argv.pop(1))); from rookery.studies.workers.trial_worker import main; gc.freeze(); main()"
)
WORKER = "rookery.studies.workers.trial_worker"
# What Optuna imports when it opens a database.
OF_STORAGE = (
    "optuna.storages._rdb.models", "alembic.command", "alembic.config", "alembic.migration", "alembic.script",
    "sqlalchemy.dialects.sqlite",
)  # fmt: skip
WorkerHandle = subprocess.Popen[bytes] | ForkedWorker
_ready: list[WorkerHandle] = []  # workers without a task


@contextmanager
def started_early(count: int) -> Iterator[None]:
    """Within, so many workers are ready, or import what they need; those that get no task are ended."""
    try:
        if hasattr(os, "sched_getaffinity"):  # elsewhere it is untested
            with suppress(OSError):  # there are too many processes
                start = _how_to_start()
                for _ in range(count):
                    _ready.append(start())
        yield
    finally:
        while _ready:
            _end(_ready.pop())


def import_on_one_thread() -> None:
    """Have libraries that are not imported yet start no threads, so that this process can be forked: that of a search
    computes nothing that would need them."""
    if "numpy" not in sys.modules:
        os.environ.update(ONE_THREAD)


def import_what_workers_need() -> None:
    """What a worker would import sooner or later, so that those forked afterwards have it."""
    for module in (WORKER, *OF_STORAGE):
        with suppress(ImportError):  # such as of another version of Optuna: the worker imports what it needs
            import_module(module)


def _how_to_start() -> Callable[[], WorkerHandle]:
    """Fork a worker if everything is here and nothing else runs in this process; else start a new interpreter."""
    module = sys.modules.get(WORKER)
    if module is not None and can_be_forked():
        return partial(ForkedWorker, module.main)
    return partial(_start, subprocess.DEVNULL, {})


def start_worker(task: Mapping[str, Any], log: Path, variables: Mapping[str, str]) -> WorkerHandle:
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
        "task": task, "log": str(log), "path": [entry for entry in sys.path if isinstance(entry, str)],
        "variables": {**os.environ, **ONE_THREAD, **variables},
    }  # fmt: skip
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:  # if it has died, the supervisor sees that
        pipe.write(json.dumps(order).encode() + b"\n")
    return process


def take_order() -> dict[str, Any]:
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
    return order["task"]


def _start(errors: int | IO[bytes], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return start_command(variables={**ONE_THREAD, **variables}, code=CODE, stdin=pipe, stdout=pipe, stderr=errors)


def _end(process: WorkerHandle) -> None:
    if process.poll() is None:
        kill_group(process)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()
