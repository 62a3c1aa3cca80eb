"""Starts worker processes. No method imports the user's script again, so `if __name__ == "__main__"` is not needed.

spawn       a new interpreter per worker; nothing is inherited
forkserver  one new interpreter with the imports done, forked once per worker: fast for many workers
fork        a copy of this process: fastest to start, but unsafe when this process runs threads
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial

from rookery.engine.workers.channel import Channel, pair
from rookery.engine.workers.child_process import in_lasting_thread, interpreter
from rookery.engine.workers.forkserver_client import END_SECONDS, ForkServer, ForkServerLost


class Process:
    """A worker process: its pid, a descriptor that becomes readable when it ends, and its exit status."""

    def __init__(self, pid: int, reap: Callable[[], int | None]) -> None:
        self.pid, self._reap = pid, reap
        self.status: int | None = None  # as from os.waitstatus_to_exitcode: negative for a signal
        try:
            self.pidfd = os.pidfd_open(pid)
        except OSError:  # no descriptors are free
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            reap()
            raise

    def kill(self) -> None:
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)  # type: ignore[attr-defined]

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def wait(self) -> int | None:
        """The exit status of a process that has ended or was killed. None if it is not known, and if the process is
        stuck in the kernel, where not even SIGKILL ends it."""
        if self.status is None and self.pidfd >= 0 and self.ends_within(END_SECONDS):
            self.status = self._reap()
        return self.status

    def close(self) -> None:
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


class WorkerLauncher:
    """Starts workers by one method for one engine."""

    def __init__(self, method: str) -> None:
        if not (hasattr(os, "pidfd_open") and hasattr(os, "memfd_create")):
            raise OSError("they need Linux: memfd for shared memory, pidfd to notice that a process died")
        self.method = method
        self._servers: list[ForkServer] = []  # the last one forks new workers

    def start(self) -> tuple[Process, Channel]:
        """A new worker that listens on the channel."""
        try:
            return self._start()
        except ForkServerLost:  # try a new one, with a new channel: the lost one may continue and still use its own
            return self._start()

    def close(self) -> None:
        while self._servers:
            self._servers.pop().close()

    def _start(self) -> tuple[Process, Channel]:
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

    def _spawn(self, theirs: socket.socket, _: Channel) -> Process:
        child = interpreter("worker", theirs)
        return Process(child.pid, partial(_status, child))

    def _fork(self, theirs: socket.socket, ours: Channel) -> Process:
        parent = os.getpid()

        def fork() -> int:
            sys.stdout.flush()  # else the child would print what is still in the buffer a second time
            pid = os.fork()
            if pid == 0:
                from rookery.engine.workers.worker import main

                ours.close()
                main(theirs.detach(), parent)
            return pid

        pid = in_lasting_thread(fork)
        return Process(pid, lambda: collect(pid))

    def _from_server(self, theirs: socket.socket, _: Channel) -> Process:
        server = self._server()
        pid = server.fork(theirs)
        try:
            return Process(pid, partial(server.status, pid))
        except ProcessLookupError:
            raise ForkServerLost("the fork server died, and its new worker with it") from None

    def _server(self) -> ForkServer:
        """A server that responds. One that does not is kept for the workers it has: they would die with it."""
        for server in [server for server in self._servers if server.dead]:
            self._servers.remove(server)
            server.close()
        if not self._servers or not self._servers[-1].usable:
            self._servers.append(ForkServer())
        return self._servers[-1]


def _status(child: subprocess.Popen) -> int | None:
    """`child.wait()` returns 0 if other code has collected the status, or the program ignores SIGCHLD: then None."""
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        child.wait()
        return None
    return child.wait()


def collect(pid: int) -> int | None:
    """The exit status of a child that has ended."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return None


def describe_exit(status: int | None, for_memory: bool) -> str:
    """How a process ended, from its exit status; `for_memory` if the kernel has just killed one to free memory."""
    if status is None:
        return "died (its exit status is not known)"
    if status >= 0:
        return f"exited with code {status}" + (" (the env called exit)" if status == 0 else "")
    name = signal.strsignal(-status) if -status >= signal.SIGRTMIN else signal.Signals(-status).name
    if -status != signal.SIGKILL:
        return f"died of signal {-status} ({name})"
    if for_memory:
        return f"was killed for memory (signal 9, {name}: the kernel ran out of memory and chose it)"
    return f"was killed by signal 9 ({name}); if nobody sent it, it was for memory: see the kernel's log"
