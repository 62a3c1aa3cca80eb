"""Starting worker processes. No way re-imports the user's script, so `if __name__ == "__main__"` is not needed.

spawn       a fresh interpreter per worker; nothing is inherited
forkserver  one fresh interpreter with the imports done, forked once per worker: quick for many workers
fork        a copy of this process: quickest to start, but unsafe when this process runs threads
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from rookery.engine.channel import Channel, ChannelClosed, pair

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
from rookery.engine.{module} import main
main(int(sys.argv[1]), {parent})
"""


class Process:
    """A started worker: its pid, a descriptor that tells of its death, and how to learn how it ended."""

    def __init__(self, pid: int, reap: Callable[[], int | None]) -> None:
        self.pid, self._reap = pid, reap
        self.status: int | None = None  # as from os.waitstatus_to_exitcode: negative for a signal
        self.pidfd = os.pidfd_open(pid)

    def kill(self) -> None:
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def wait(self) -> int | None:
        """Collect the exit status of a process that has ended or is ending."""
        if self.status is None:
            self.status = self._reap()
        return self.status

    def close(self) -> None:
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


class Launcher:
    """Starts workers by one method for one engine."""

    def __init__(self, method: str) -> None:
        if not (hasattr(os, "pidfd_open") and hasattr(os, "memfd_create")):
            raise OSError("they need Linux: memfd for memory without a name, pidfd to see a death")
        self.method = method
        self._server: tuple[subprocess.Popen, Channel] | None = None

    def start(self) -> tuple[Process, Channel]:
        """A new worker that listens on the channel."""
        channel, theirs = pair()
        try:
            start = {"fork": self._fork, "spawn": self._spawn, "forkserver": self._from_server}[self.method]
            process = start(theirs, channel)
        except BaseException:
            channel.close()
            raise
        finally:
            theirs.close()
        channel.peer = process.pidfd
        return process, channel

    def close(self) -> None:
        if self._server is not None:
            server, channel = self._server
            channel.close()
            server.kill()
            server.wait()
            self._server = None

    def _spawn(self, theirs: socket.socket, _: Channel) -> Process:
        child = _interpreter("worker", theirs)
        return Process(child.pid, child.wait)

    def _fork(self, theirs: socket.socket, ours: Channel) -> Process:
        parent = os.getpid()

        def fork() -> int:
            sys.stdout.flush()  # or the child would print what is still in the buffer a second time
            pid = os.fork()
            if pid == 0:
                from rookery.engine.worker import main

                ours.close()
                main(theirs.detach(), parent)
            return pid

        pid = _from_lasting_thread(fork)
        return Process(pid, lambda: _waitpid(pid))

    def _from_server(self, theirs: socket.socket, _: Channel) -> Process:
        if self._server is None or self._server[0].poll() is not None:
            self.close()
            channel, far = pair()
            server = _interpreter("nursery", far)
            far.close()
            self._server = server, channel
        server, channel = self._server
        try:
            channel.send(("fork",), (theirs.fileno(),))
            pid, _fds = channel.receive(timeout=60)
        except ChannelClosed:
            raise OSError("the fork server died while starting a worker") from None
        return Process(pid, lambda: self._ask_status(channel, pid))

    def _ask_status(self, channel: Channel, pid: int) -> int | None:
        try:
            channel.send(("wait", pid), timeout=5)
            return channel.receive(timeout=5)[0]
        except Exception:  # noqa: BLE001 - the server is gone too: nobody knows how the worker ended
            return None


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; `parent` is the pid it should have."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)  # it died before we asked


def _interpreter(module: str, theirs: socket.socket) -> subprocess.Popen:
    """A fresh Python that runs `main` of one of our modules with this socket."""
    fd = theirs.fileno()
    code = _BOOT.format(module=module, parent=os.getpid())
    path = [entry for entry in sys.path if isinstance(entry, str)]  # others, such as a Path, Python itself passes over
    command = [sys.executable, "-c", code, str(fd), json.dumps(path)]
    return _from_lasting_thread(
        lambda: subprocess.Popen(command, pass_fds=[fd], stdin=subprocess.DEVNULL, env={**os.environ, **ONE_THREAD})
    )


def _from_lasting_thread(call: Callable[[], Any]) -> Any:
    """Run `call` in a thread that lives as long as this process. The kernel ties "die with your parent" to the thread
    that started the child: from a short-lived thread, the child would be killed when that thread ends."""
    if threading.current_thread() is threading.main_thread():
        return call()
    box: list[Any] = []
    finished = threading.Event()

    def run() -> None:
        try:
            box.append(call())
        except BaseException as error:  # noqa: BLE001 - handed to the caller below
            box.append(error)
        finished.set()
        threading.Event().wait()  # for ever; a daemon thread ends with the process

    threading.Thread(target=run, name="rookery-launcher", daemon=True).start()
    finished.wait()
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]


def _waitpid(pid: int) -> int | None:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return None
