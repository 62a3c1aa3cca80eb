"""Starts worker processes. No method imports the user's script again, so `if __name__ == "__main__"` is not needed.

forkserver  a copy of an interpreter with the imports done, which serves all engines of this program: 5 ms per worker
spawn       a new interpreter per worker: slow, but nothing is shared
fork        a copy of this process: has all that is imported here, but is unsafe when this process runs threads
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from rookery.engine.workers import linux
from rookery.engine.workers.child_process import PORTABLE, in_lasting_thread, interpreter
from rookery.engine.workers.forkserver import LOOK_SECONDS, SERVERS, Connection, ForkServerLost
from rookery.engine.workers.linux import EventfdWakeup, FdChannel, MemfdBlock, PidfdPoll, PidfdProcess, collect, pair
from rookery.engine.workers.portable import PortableLauncher

START_TRIES = 3  # for a first start, where fork servers are lost; restarts are counted by the engine
Started = tuple[PidfdProcess, FdChannel, EventfdWakeup]
FindProcess = Callable[[float], PidfdProcess | None]  # a process, or None if it is not known by then


class WorkerLaunch:
    """The start of a worker, which may take time where a fork server must start first."""

    def __init__(self, start: Callable[[socket.socket, FdChannel], tuple[FindProcess, Callable[[], None]]]) -> None:
        self._wakeup = EventfdWakeup()
        try:
            self._channel, theirs = pair()
            try:
                self._find_process, self._give_up = start(theirs, self._channel)
            except BaseException:
                self._channel.close()
                raise
            finally:
                theirs.close()
        except BaseException:
            self._wakeup.close()
            raise

    def poll(self, until: float) -> Started | None:
        """The worker, its channel and its wake-up; None if they are not there by then. ForkServerLost if they never
        will be."""
        process = self._find_process(until)
        if process is None:
            return None
        self._channel.peer = process.pidfd
        return process, self._channel, self._wakeup

    def abort(self) -> None:
        """Forget a worker that did not come. One that comes later finds its channel closed, and ends."""
        self._give_up()
        self._channel.close()
        self._wakeup.close()


class WorkerLauncher:
    """Starts workers by one method for one engine."""

    def __init__(self, method: str) -> None:
        self.method = method
        self._wakeup = EventfdWakeup()  # set by all workers
        self.modules: tuple[str, ...] = ()  # what workers from a fork server should have imported already
        self._connections: list[Connection] = []  # to fork servers; the last one forks new workers

    def start(self) -> Started:
        """A new worker that listens on the channel, and its wake-up."""
        for tries_left in reversed(range(START_TRIES)):
            launch = self.begin()
            try:
                while (started := launch.poll(time.monotonic() + LOOK_SECONDS)) is None:
                    pass
                return started
            except BaseException as error:
                launch.abort()
                if not isinstance(error, ForkServerLost) or not tries_left:
                    raise
        raise AssertionError("not reached")

    def import_for(self, world: Any) -> None:
        """Have workers start with the packages of this world, as far as earlier engines have found them."""
        self.modules = SERVERS.packages_of(world)

    def learn_packages(self, world: Any, modules: Sequence[str], seconds: float) -> None:
        """Have later workers start with the packages that the first one has imported, if that pays: all of them would
        spend so many seconds on it."""
        if not self.modules:
            self.modules = SERVERS.learn_packages(world, modules, seconds)

    def begin(self) -> WorkerLaunch:
        """Begin to start a worker."""
        return WorkerLaunch({"fork": self._fork, "spawn": self._spawn, "forkserver": self._from_server}[self.method])

    def new_block(self, size: int) -> MemfdBlock:
        return MemfdBlock(size)

    def poll(self, handles: Iterable[Any]) -> PidfdPoll:
        """What to sleep on for these workers."""
        return PidfdPoll(self._wakeup, handles)

    def wakeups(self, wakeup: Any) -> tuple[EventfdWakeup, ...]:
        """What a worker with this wake-up waits for, and what it sets."""
        return wakeup, self._wakeup

    def close(self) -> None:
        while self._connections:
            self._connections.pop().close()
        self._wakeup.close()

    def _spawn(self, theirs: socket.socket, _: FdChannel) -> tuple[FindProcess, Callable[[], None]]:
        child = interpreter("linux", theirs)
        return _known(PidfdProcess(child.pid, partial(_status, child)))

    def _fork(self, theirs: socket.socket, ours: FdChannel) -> tuple[FindProcess, Callable[[], None]]:
        parent = os.getpid()

        def fork() -> int:
            sys.stdout.flush()  # else the child would print what is still in the buffer a second time
            pid = os.fork()
            if pid == 0:
                ours.close()
                linux.main(theirs.detach(), parent)
            return pid

        pid = in_lasting_thread(fork)
        return _known(PidfdProcess(pid, lambda: collect(pid)))

    def _from_server(self, theirs: socket.socket, _: FdChannel) -> tuple[FindProcess, Callable[[], None]]:
        server = self._connection()
        number = server.request_fork(theirs)

        def find_process(until: float) -> PidfdProcess | None:
            try:
                pid = server.forked(number, until)
            except ForkServerLost:
                if server.server.modules:
                    SERVERS.refuse_packages(server.server.modules)
                    self.modules = ()
                raise
            if pid is None:
                return None
            try:
                return PidfdProcess(pid, partial(server.status, pid))
            except ProcessLookupError:
                raise ForkServerLost("the fork server died, and its new worker with it") from None

        return find_process, server.give_up

    def _connection(self) -> Connection:
        """To a server that responds. One that does not is kept for the workers it has, as they would die with it."""
        for old in [c for c in self._connections if c.server.dead or not (c.usable or c.workers)]:
            self._connections.remove(old)
            old.close()
        last = self._connections[-1] if self._connections else None
        if last is None or not last.usable or last.server.modules != self.modules:
            self._connections.append(SERVERS.connect(self.modules))
        return self._connections[-1]


def _known(process: PidfdProcess) -> tuple[FindProcess, Callable[[], None]]:
    """A process that runs already."""

    def give_up() -> None:
        process.kill()
        process.wait()
        process.close()

    return lambda _: process, give_up


Launcher = WorkerLauncher | PortableLauncher


def new_launcher(method: str | None) -> Launcher:
    """The one for this system; by default with the method that is safe with threads and quick."""
    return PortableLauncher(method or "spawn") if PORTABLE else WorkerLauncher(method or "forkserver")


def _status(child: subprocess.Popen) -> int | None:
    """`child.wait()` returns 0 if other code has collected the status, or the program ignores SIGCHLD: then None."""
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        child.wait()
        return None
    return child.wait()


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
