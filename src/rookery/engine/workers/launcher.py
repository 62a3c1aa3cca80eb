"""Starts worker processes. No method imports the user's script again, so `if __name__ == "__main__"` is not needed.

spawn       a new interpreter per worker; nothing is inherited
forkserver  one new interpreter with the imports done, forked once per worker: fast for many workers
fork        a copy of this process: fastest to start, but unsafe when this process runs threads
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

from rookery.engine.workers.child_process import in_lasting_thread, interpreter
from rookery.engine.workers.forkserver_client import ForkServer, ForkServerLost
from rookery.engine.workers.platform.linux import EventfdWakeup, FdChannel, MemfdBlock, PidfdPoll, PidfdProcess, pair
from rookery.engine.workers.portability import PORTABLE
from rookery.engine.workers.portable_launcher import PortableLauncher


class WorkerLauncher:
    """Starts workers by one method for one engine."""

    def __init__(self, method: str) -> None:
        self.method = method
        self._wakeup = EventfdWakeup()  # set by all workers
        self._servers: list[ForkServer] = []  # the last one forks new workers

    def start(self) -> tuple[PidfdProcess, FdChannel, EventfdWakeup]:
        """A new worker that listens on the channel, and its wake-up."""
        try:
            return self._start()
        except ForkServerLost:  # try a new one, with a new channel: the lost one may continue and still use its own
            return self._start()

    def new_block(self, size: int) -> MemfdBlock:
        return MemfdBlock(size)

    def poll(self, handles: Iterable[Any]) -> PidfdPoll:
        """What to sleep on for these workers."""
        return PidfdPoll(self._wakeup, handles)

    def wakeups(self, wakeup: Any) -> tuple[EventfdWakeup, ...]:
        """What a worker with this wake-up waits for, and what it sets."""
        return wakeup, self._wakeup

    def close(self) -> None:
        while self._servers:
            self._servers.pop().close()
        self._wakeup.close()

    def _start(self) -> tuple[PidfdProcess, FdChannel, EventfdWakeup]:
        wakeup = EventfdWakeup()
        try:
            return *self._start_process(), wakeup
        except BaseException:
            wakeup.close()
            raise

    def _start_process(self) -> tuple[PidfdProcess, FdChannel]:
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

    def _spawn(self, theirs: socket.socket, _: FdChannel) -> PidfdProcess:
        child = interpreter("linux_worker", theirs)
        return PidfdProcess(child.pid, partial(_status, child))

    def _fork(self, theirs: socket.socket, ours: FdChannel) -> PidfdProcess:
        # Before the fork: if another thread is importing one of these modules, the child would wait for it for ever.
        from rookery.engine.workers.linux_worker import main

        parent = os.getpid()

        def fork() -> int:
            sys.stdout.flush()  # else the child would print what is still in the buffer a second time
            pid = os.fork()
            if pid == 0:
                ours.close()
                main(theirs.detach(), parent)
            return pid

        pid = in_lasting_thread(fork)
        return PidfdProcess(pid, lambda: collect(pid))

    def _from_server(self, theirs: socket.socket, _: FdChannel) -> PidfdProcess:
        server = self._server()
        pid = server.fork(theirs)
        try:
            return PidfdProcess(pid, partial(server.status, pid))
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


Launcher = WorkerLauncher | PortableLauncher


def new_launcher(method: str) -> Launcher:
    """The one for this system."""
    return PortableLauncher(method) if PORTABLE else WorkerLauncher(method)


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
    name = signal.Signals(-status).name if -status in set(signal.Signals) else signal.strsignal(-status)
    if -status != signal.SIGKILL:
        return f"died of signal {-status} ({name})"
    if for_memory:
        return f"was killed for memory (signal 9, {name}: the kernel ran out of memory and chose it)"
    return f"was killed by signal 9 ({name}); if nobody sent it, it was for memory: see the kernel's log"
