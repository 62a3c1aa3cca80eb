"""A worker that is forked from the process of the search instead of started as a new interpreter: it has torch and all
of rookery from its first millisecond."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import IO, NoReturn

from rookery.engine.workers.child_process import PORTABLE, set_up_child

# What torch leaves open after it has looked at the CPU, and what nobody can change by reading.
HARMLESS = ("/sys/", "/proc/", "/dev/null")


def can_be_forked() -> bool:
    """Whether a fork of this process would be as good as a new one: no threads, and no descriptors, such as of a
    device or a database, that both would use."""
    if PORTABLE or not sys.platform.startswith("linux"):
        return False
    return len(os.listdir("/proc/self/task")) == 1 and not _shared_files()


def _shared_files() -> list[str]:
    """What this process has open and shares with a fork, apart from what it was started with."""
    found = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # the one that lists the folder
            if not os.get_inheritable(fd) and not (target := os.readlink(f"/proc/self/fd/{fd}")).startswith(HARMLESS):
                found.append(target)
    return found


class ForkedWorker:
    """Runs `main` in a fork of this process, which leads a group of its own; used like `subprocess.Popen`. Its input
    and output are pipes, and its errors are discarded until it redirects them."""

    _all: weakref.WeakSet[ForkedWorker] = weakref.WeakSet()

    def __init__(self, main: Callable[[], object]) -> None:
        read, write_input = os.pipe()
        read_output, write = os.pipe()
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            _become_worker(main, parent, read, write, [write_input, read_output])
        with suppress(OSError):  # the child does it too: either may be first
            os.setpgid(self.pid, self.pid)
        os.close(read)
        os.close(write)
        self.stdin: IO[bytes] | None = os.fdopen(write_input, "wb")
        self.stdout: IO[bytes] | None = os.fdopen(read_output, "rb")
        self.returncode: int | None = None
        self._waiting = threading.Lock()  # one thread asks the system at a time
        self._all.add(self)

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        if self.returncode is None and self._waiting.acquire(blocking=False):
            try:
                self._wait(os.WNOHANG)
            finally:
                self._waiting.release()
        return self.returncode

    def wait(self) -> int:
        """The exit status, once it has ended."""
        with self._waiting:
            while self.returncode is None:
                self._wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _wait(self, options: int) -> None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)


def _become_worker(main: Callable[[], object], parent: int, read: int, write: int, theirs: list[int]) -> NoReturn:
    """Keep nothing of the program but its modules, not even the state of its random numbers."""
    status: object = 1
    try:
        os.setpgid(0, 0)
        set_up_child(parent)
        gc.set_threshold(10_000, 20, 50)  # as the command's
        for pipe in [file for worker in ForkedWorker._all for file in (worker.stdin, worker.stdout) if file]:
            pipe.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        for target, fd in enumerate((read, write, nothing)):
            os.dup2(fd, target)
        for fd in (read, write, nothing, *theirs):
            os.close(fd)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for as long as the process lives
        _forget_random_state()
        main()
        status = 0
    except SystemExit as error:
        status = error.code
    except BaseException:  # noqa: BLE001 - whatever it is, this process must not continue as a second program
        traceback.print_exc()
    finally:
        with suppress(Exception):
            threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as an exit does
            sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 0 if status is None else 1)


def _forget_random_state() -> None:
    import numpy as np

    np.random.seed()  # envs may use it; `random` does so by itself after a fork
