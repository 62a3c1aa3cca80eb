"""Child processes: new interpreters that run `main` of a module in this package, and end when their parent does."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from types import FrameType
from typing import Any

from rookery.once import once

# Which of two ways worker processes use: what Linux offers, or only what CPython offers on every system.
LINUX_NAMES = ("memfd_create", "eventfd", "pidfd_open")  # memory, wake-ups, deaths
_forced = os.environ.get("ROOKERY_PORTABLE", "") not in ("", "0")
PORTABLE = _forced or not all(hasattr(os, name) for name in LINUX_NAMES)

LOOK_SECONDS = 0.5  # between two looks whether the parent lives
ONE_THREAD = {
    name: "1"
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    )
}
_BOOT = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from rookery.engine.workers.{module} import main
main(int(sys.argv[1]), {parent})
"""


def interpreter(module: str, theirs: socket.socket) -> subprocess.Popen:
    """Start Python with `main` of a module in this package and this socket."""
    fd = theirs.fileno()
    code = _BOOT.format(module=module, parent=os.getpid())
    command = [sys.executable, "-c", code, str(fd), json.dumps(import_path())]
    return in_lasting_thread(
        lambda: subprocess.Popen(command, pass_fds=[fd], stdin=subprocess.DEVNULL, env={**os.environ, **ONE_THREAD})
    )


def import_path() -> list[str]:
    """Where this process looks for modules. Python itself ignores entries that are not strings, such as a Path."""
    return [entry for entry in sys.path if isinstance(entry, str)]


@dataclass(frozen=True)
class Surroundings:
    """What a child process inherits from the program that starts it, for one that a fork server starts instead."""

    folder: str | None
    variables: dict[str, str]
    path: list[str]
    cores: set[int]
    niceness: int
    limits: dict[int, tuple[int, int]]
    output: tuple[int, ...]  # descriptors of its output and errors, which are sent beside this

    @classmethod
    def now(cls) -> Surroundings:
        """Those of this process."""
        import resource  # not on Windows, which has no fork servers

        try:
            folder = os.getcwd()
        except OSError:  # it was removed
            folder = None
        limits = {number: resource.getrlimit(number) for number in _limit_numbers()}
        output = tuple(fd for fd in (1, 2) if _is_open(fd))
        cores, niceness = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
        return cls(folder, cls.environment(), import_path(), cores, niceness, limits, output)

    @staticmethod
    def environment() -> dict[str, str]:
        return {**{name: text for name, text in os.environ.items() if name != TEST_NAME}, **ONE_THREAD}

    def take_on(self, fds: Sequence[int]) -> None:
        """Make them those of this process. What it may not do, such as raise a limit, is left."""
        import resource

        for fd, target in zip(fds, self.output, strict=True):
            os.dup2(fd, target)
            os.close(fd)
        if dict(os.environ) != self.variables:
            os.environ.clear()
            os.environ.update(self.variables)
            time.tzset()
        sys.path[:] = self.path
        importlib.invalidate_caches()  # files may be newer than what the server remembers of their folders
        with suppress(OSError):
            if self.folder is not None:
                os.chdir(self.folder)
        for number, limit in self.limits.items():
            with suppress(OSError, ValueError):
                resource.setrlimit(number, limit)
        with suppress(OSError):
            os.sched_setaffinity(0, self.cores)
            os.setpriority(os.PRIO_PROCESS, 0, self.niceness)


def unchangeable() -> tuple[str, ...]:
    """What a process takes from its parent and cannot take on later: its user, its rights, its cgroup, its interpreter,
    and variables that are read when it starts."""
    lines = [*_lines("/proc/self/status"), *_lines("/proc/self/cgroup")]
    early = [f"{name}={text}" for name, text in os.environ.items() if name.startswith(READ_EARLY)]
    return sys.executable, *[line for line in lines if line.startswith(FIXED) or line[:1].isdigit()], *early


TEST_NAME = "PYTEST_CURRENT_TEST"  # pytest changes it with every test, for nobody but those who look at a hung one
READ_EARLY = ("PYTHON", "LD_", "ROOKERY_P", "MALLOC_", "GLIBC_", "NPY_", "NUMPY_")
FIXED = ("Umask:", "Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp:")


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []


@once
def _limit_numbers() -> list[int]:
    import resource

    return [number for name, number in vars(resource).items() if name.startswith("RLIMIT_")]


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def set_up_child(parent: int) -> None:
    """The first call in a child process: it dies with its parent (`parent` is the pid it should have), ignores Ctrl-C
    and SIGTERM, which the parent handles, and does not inherit the program's own signal handlers."""
    die_with_parent(parent)
    ignore_signals()


def ignore_signals() -> None:
    """Ignore Ctrl-C and SIGTERM, and handle other signals as a new program does. A terminal, `timeout`, systemd and
    Slurm send them to all processes of a run; its main process saves, and ends the others."""
    owner = os.getpid()

    def ignore(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a process that an env has forked
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A handler: programs that an env starts would inherit that a signal is ignored, and `terminate()` not end them.
    signal.signal(signal.SIGTERM, ignore)
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it were ignored, a child's exit status could not be read


def die_with_parent(parent: int) -> None:
    """End this process when its parent dies: by the kernel on Linux, elsewhere by a thread that looks."""
    if sys.platform == "linux" and not PORTABLE:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)  # it died before the call
    else:
        threading.Thread(target=_end_after, args=(parent,), name="rookery-parent", daemon=True).start()


def _end_after(parent: int) -> None:
    import psutil

    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(parent)
        while process.is_running() and os.getppid() == parent:
            time.sleep(LOOK_SECONDS)
    os._exit(1)


def in_lasting_thread(call: Callable[[], Any]) -> Any:
    """Run `call` in a thread that lives as long as this process. The kernel ties "die with your parent" to the thread
    that started the child: from a short-lived thread, the child would be killed when that thread ends."""
    if threading.current_thread() is threading.main_thread():
        return call()
    future: Future[Any] = Future()
    _lasting_thread().put((call, future))
    return future.result()


@once
def _lasting_thread() -> SimpleQueue[tuple[Callable[[], Any], Future[Any]]]:
    """The queue of calls for that thread."""
    calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()

    def serve() -> None:
        while True:  # a daemon thread ends with the process
            call, future = calls.get()
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - raised in the caller
                future.set_exception(error)

    threading.Thread(target=serve, name="rookery-launcher", daemon=True).start()
    return calls


if hasattr(os, "register_at_fork"):  # threads are not forked
    os.register_at_fork(after_in_child=_lasting_thread.cache_clear)
