"""Fork servers: new interpreters with everything imported, which fork a worker in milliseconds.

They are shared by all engines of a program and live as long as it does. The first has NumPy, Gymnasium and the engine,
runs one thread and none of the user's code. For envs whose packages take long to import there is another that has these
as well. A worker takes on what the program is like when it is started (`child_process.Surroundings`), as if the program
had started it itself.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import os
import select
import socket
import subprocess
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import psutil

from rookery.engine.workers import linux
from rookery.engine.workers.channel import ChannelClosed, ChannelTimeout, DeferInterrupt
from rookery.engine.workers.child_process import Surroundings, interpreter, set_up_child, unchangeable
from rookery.engine.workers.linux import END_SECONDS, FdChannel, collect, pair

START_SECONDS = 60.0  # it first imports everything, on a machine that may be busy
RESPONSE_SECONDS = 10.0  # later it only forks
STATUS_SECONDS = 2.0  # for the exit status of a worker, which only an error message needs
LOOK_SECONDS = 0.5  # how often it is checked in the meantime
SERVER_SECONDS = 0.5  # CPU time that starting a server takes
MOST_SERVERS = 3  # one without packages, and two that have some: torch alone is 200 MB


class ForkServerLost(OSError):
    """It died, was stopped, or takes too long."""


class ForkServer:
    """The program's side of one server. Engines, which may be in several threads, have a connection each."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        self.modules, self._made_for = tuple(modules), _made_for(modules)
        self.connections = 0
        self.responded = self.lost = False
        self._control, theirs = pair()
        try:
            self._process = interpreter("forkserver", theirs)
            self._control.send(self.modules, (), START_SECONDS)
        except BaseException:
            self._control.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def dead(self) -> bool:
        return self._process.poll() is not None

    @property
    def stopped(self) -> bool:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        return False

    def serves(self, modules: tuple[str, ...]) -> bool:
        """Whether it can fork workers that have these modules, for this program as it is now."""
        return modules == self.modules and not self.lost and not self.dead and self._made_for == _made_for(modules)

    def fileno(self) -> int:
        return self._control.fileno()

    def connect(self) -> FdChannel:
        """A connection of one engine."""
        ours, theirs = pair()
        try:
            self._control.send("connect", (theirs.fileno(),), LOOK_SECONDS)
        except BaseException as error:
            ours.close()
            self.lost = True
            if isinstance(error, (ChannelClosed, ChannelTimeout)):
                raise _lost() from None
            raise
        finally:
            theirs.close()
        self.connections += 1
        return ours

    def close(self) -> None:
        """End it, and with it all its workers."""
        self.lost = True
        self._control.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)

    def leave_to_parent(self) -> None:
        """In a forked child of the program, which does not own it."""
        self._control.close()
        self._process.returncode = 0  # else `Popen` would warn that it still runs


def _made_for(modules: Sequence[str]) -> Any:
    """What a program may not have changed since it started a server: what a worker cannot take on later, and for
    packages, which may read any variable when they are imported, the whole environment."""
    return unchangeable(), Surroundings.environment() if modules else None


class ForkServers:
    """All servers of this program."""

    def __init__(self) -> None:
        self._servers: list[ForkServer] = []  # the last used last
        self._lock = threading.Lock()
        self._packages: dict[Any, tuple[str, ...]] = {}  # what the envs of a world import
        self._spent: dict[Any, float] = {}  # CPU seconds that workers have spent on importing it
        self._refused: set[tuple[str, ...]] = set()

    def connect(self, modules: tuple[str, ...] = ()) -> Connection:
        """A connection to a server with these modules, which is started if there is none."""
        with self._lock:
            server = self._find(modules)
            return Connection(self, server, server.connect())

    def packages_of(self, world: Any) -> tuple[str, ...]:
        """The modules that workers for this world should have from the start, as far as that is known."""
        return self._packages.get(world, ())

    def learn_packages(self, world: Any, modules: Sequence[str], seconds: float) -> tuple[str, ...]:
        """Workers for this world import these modules, which takes them so many CPU seconds. Once they have spent what
        a server costs, they come from one that has the modules, if such a server can be forked."""
        self._spent[world] = self._spent.get(world, 0.0) + seconds
        wanted = next((server.modules for server in self._servers if {*modules} <= {*server.modules}), tuple(modules))
        if modules and self._spent[world] > SERVER_SECONDS and wanted not in self._refused:
            self._packages[world] = wanted
        return self.packages_of(world)

    def refuse_packages(self, modules: tuple[str, ...]) -> None:
        """A server with these modules has ended; one of them may be the reason."""
        self._refused.add(modules)
        self._packages = {world: known for world, known in self._packages.items() if known != modules}

    def prepare(self) -> None:
        """Start the first server, without waiting for it."""
        with self._lock:
            self._find(())

    def _find(self, modules: tuple[str, ...]) -> ForkServer:
        server = next((server for server in self._servers if server.serves(modules)), None)
        if server is None:
            server = ForkServer(modules)
        else:
            self._servers.remove(server)
        self._servers.append(server)
        self._close_unused()
        return server

    def _close_unused(self) -> None:
        """End those that no engine uses and none will, and beyond MOST_SERVERS the one that was not used longest."""
        unused = [server for server in self._servers[:-1] if not server.connections]
        surplus = len(self._servers) - MOST_SERVERS
        for k, server in enumerate(unused):
            if k < surplus or not server.serves(server.modules):
                self._servers.remove(server)
                server.close()

    def disconnect(self, server: ForkServer) -> None:
        """One engine needs it no more. Its workers would die with it, so it ends only after the last engine's."""
        with self._lock:
            server.connections -= 1
            if not server.connections and (server.lost or server.dead) and server in self._servers:
                self._servers.remove(server)
                server.close()

    def __iter__(self) -> Iterator[ForkServer]:
        return iter(self._servers)

    def close(self) -> None:
        """End all of them, and the workers they have; the next engine starts a new one."""
        while self._servers:
            self._servers.pop().close()

    def leave_to_parent(self) -> None:
        """In a forked child of the program: it starts its own."""
        inherited, self._servers, self._lock = self._servers, [], threading.Lock()
        for server in inherited:
            server.leave_to_parent()


SERVERS = ForkServers()
atexit.register(SERVERS.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SERVERS.leave_to_parent)


class Connection:
    """Requests of one engine to a server. It gives the server up if that does not respond."""

    def __init__(self, servers: ForkServers, server: ForkServer, channel: FdChannel) -> None:
        self.server, self._servers, self._channel = server, servers, channel
        self.workers: set[int] = set()  # those whose end was not noticed yet: they die with the server
        self._lost, self._last_request = False, 0
        self._responses: dict[int, Any] = {}
        self._deadline = self._next_look = 0.0

    @property
    def usable(self) -> bool:
        return not self._lost and not self.server.lost and not self.server.dead

    def request_fork(self, theirs: socket.socket) -> int:
        """Request a new worker, which has this socket; `forked` with the number returned here gives its pid."""
        surroundings = Surroundings.now()
        return self._request(("fork", surroundings), (theirs.fileno(), *surroundings.output))

    def forked(self, number: int, until: float) -> int | None:
        """The pid of the new worker; None if the server has not responded by then. Raises why it cannot be forked."""
        pid = self._response(number, until)
        if isinstance(pid, OSError):
            raise pid
        if pid is not None:
            self.workers.add(pid)
        return pid

    def status(self, pid: int) -> int | None:
        """The exit status of a worker that has ended; None if it cannot be known."""
        self.workers.discard(pid)
        with contextlib.suppress(ForkServerLost):
            return self._response(self._request(("wait", pid)), time.monotonic() + STATUS_SECONDS)
        return None

    def give_up(self) -> None:
        """Use the server no longer. It is kept while it has workers."""
        self._lost = self.server.lost = True

    def close(self) -> None:
        """The server collects the workers that are left."""
        self._lost = True  # for a launch that still waits for a worker
        self._channel.close()
        self._servers.disconnect(self.server)

    def _request(self, request: tuple, fds: tuple[int, ...] = ()) -> int:
        if self._lost:
            raise _lost()
        now = time.monotonic()
        self._last_request += 1
        patience = RESPONSE_SECONDS if self.server.responded else START_SECONDS
        self._deadline, self._next_look = now + patience, now + LOOK_SECONDS
        try:
            self._channel.send((self._last_request, *request), fds, LOOK_SECONDS)
        except BaseException as error:
            self.give_up()
            if isinstance(error, (ChannelClosed, ChannelTimeout)):
                raise _lost() from None
            raise
        return self._last_request

    def _response(self, number: int, until: float) -> Any:
        """Wait long for a server that is working, but not for one that was stopped."""
        while number not in self._responses:
            if self._lost:  # found by another request
                raise _lost()
            try:
                self._channel.gather(max(0.0, min(until - time.monotonic(), LOOK_SECONDS)))
            except ChannelTimeout:
                if self._hangs():
                    self.give_up()
                    raise _lost() from None
                if time.monotonic() >= until:
                    return None
                continue
            except ChannelClosed:
                self.give_up()
                raise _lost() from None
            with DeferInterrupt():  # else a response could be lost between the channel and its dict
                (responded, value), _ = self._channel.receive()
                self._responses[responded], self.server.responded = value, True
        return self._responses.pop(number)

    def _hangs(self) -> bool:
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + LOOK_SECONDS
        return now > self._deadline or self.server.dead or self.server.stopped


def _lost() -> ForkServerLost:
    return ForkServerLost("the fork server died, was stopped, or takes too long to respond")


# --- in the server's process ------------------------------------------------------------------------------------------


def main(fd: int, parent: int) -> None:
    """Serve until the program closes the control channel."""
    set_up_child(parent)
    control = FdChannel(socket.socket(fileno=fd))
    try:
        modules, _ = control.receive()
    except ChannelClosed:  # the program was interrupted as it started this process
        os._exit(0)
    if modules and not _imports_cleanly(modules):
        os._exit(1)
    _let_go()
    gc.collect()
    gc.freeze()  # a collection in a worker would copy the pages of all objects that it shares with this process
    Serving(control).run()


def _let_go() -> None:
    """Keep no output and no folder of the program in use: who reads the output should see its end when the program
    closes it. Workers take on those of their own time."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):
        os.dup2(nothing, fd)
    os.close(nothing)
    os.chdir("/")


def _imports_cleanly(modules: Sequence[str]) -> bool:
    """Whether this process can still be forked with these modules: none of them started a thread, or opened what copies
    of it would share, such as a device, a socket or a file to read. The first worker has printed their output."""
    before = _open_files()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for module in modules:
            with contextlib.suppress(Exception):  # such as one that only its own package can import
                importlib.import_module(module)
    return len(os.listdir("/proc/self/task")) == 1 and _open_files() == before


def _open_files() -> list[str]:
    """All but those of the kernel, which torch leaves open after it has looked at the CPU."""
    targets = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists the folder
            targets.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sorted(target for target in targets if not target.startswith(("/sys/", "/proc/", "/dev/null")))


class Serving:
    """The loop of a server: responses have the number of their request."""

    def __init__(self, control: FdChannel) -> None:
        self._control = control
        self._channels: dict[int, FdChannel] = {}  # the connections of engines
        self._children: dict[int, set[int]] = {}  # the workers of each, until it has asked for their exit status
        self._orphans: set[int] = set()  # workers of engines that are gone
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def run(self) -> None:
        while True:
            ready = self._poll.poll(1000 if self._orphans else None)
            self._orphans = {pid for pid in self._orphans if os.waitpid(pid, os.WNOHANG)[0] == 0}
            for fd, _ in ready:
                try:
                    if fd == self._control.fileno():
                        self._add(self._control.receive()[1][0])
                    else:
                        self._handle(fd, *self._channels[fd].receive())
                except ChannelClosed:
                    if fd == self._control.fileno():
                        os._exit(0)
                    self._remove(fd)

    def _add(self, fd: int) -> None:
        self._channels[fd], self._children[fd] = FdChannel(socket.socket(fileno=fd)), set()
        self._poll.register(fd, select.POLLIN)

    def _remove(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._channels.pop(fd).close()
        self._orphans |= self._children.pop(fd)

    def _handle(self, fd: int, request: tuple, fds: list[int]) -> None:
        number, method, argument = request
        channel, children = self._channels[fd], self._children[fd]
        if method == "wait":
            children.discard(argument)
            channel.send((number, collect(argument)))
            return
        channel.send((number, self._fork(children, argument, fds)))

    def _fork(self, children: set[int], surroundings: Surroundings, fds: list[int]) -> int | OSError:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:  # too many processes, or too little memory
            return error
        finally:
            if os.getpid() == parent:
                for fd in fds:
                    os.close(fd)
        if pid == 0:
            self._become_worker(parent, surroundings, fds)
        children.add(pid)
        return pid

    def _become_worker(self, parent: int, surroundings: Surroundings, fds: list[int]) -> None:
        """Keep nothing of the server but its modules, not even the state of its random numbers. Never returns."""
        try:
            for channel in (self._control, *self._channels.values()):
                channel.close()
            np.random.seed()  # envs may use it; `random` does so by itself after a fork
            surroundings.take_on(fds[1:])
            linux.main(fds[0], parent)
        except BaseException:  # noqa: BLE001 - whatever it is, this process must not continue as a second server
            traceback.print_exc()
        finally:
            os._exit(1)
