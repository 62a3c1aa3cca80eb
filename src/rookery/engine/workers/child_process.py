"""Child processes: new interpreters that run `main` of a module in this package, and end when their parent does."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
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
    path = [entry for entry in sys.path if isinstance(entry, str)]  # Python itself ignores others, such as a Path
    command = [sys.executable, "-c", code, str(fd), json.dumps(path)]
    return in_lasting_thread(
        lambda: subprocess.Popen(command, pass_fds=[fd], stdin=subprocess.DEVNULL, env={**os.environ, **ONE_THREAD})
    )


def set_up_child(parent: int) -> None:
    """The first call in a child process: it dies with its parent (`parent` is the pid it should have), ignores Ctrl-C,
    which the parent handles, and does not inherit the program's own signal handlers."""
    die_with_parent(parent)
    ignore_signals()


def ignore_signals() -> None:
    """Ignore Ctrl-C, and handle other signals as a new program does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
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
