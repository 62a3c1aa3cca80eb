"""The fork server: a new interpreter with everything imported, which forks one worker per request.

The parent gives the server up if it does not respond.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from typing import Any

import psutil

from rookery.engine.workers import linux
from rookery.engine.workers.channel import ChannelClosed, ChannelTimeout, DeferInterrupt
from rookery.engine.workers.child_process import interpreter, set_up_child
from rookery.engine.workers.linux import END_SECONDS, FdChannel, collect, pair

START_SECONDS = 60.0  # it first imports everything, on a machine that may be busy
RESPONSE_SECONDS = 10.0  # later it only forks
STATUS_SECONDS = 2.0  # for the exit status of a worker, which only an error message needs
LOOK_SECONDS = 0.5  # how often it is checked meanwhile


class ForkServerLost(OSError):
    """It died, was stopped, or takes too long."""


class ForkServer:
    """A process with everything imported that forks workers."""

    def __init__(self) -> None:
        self._channel, theirs = pair()
        try:
            self._process = interpreter("forkserver", theirs)
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()
        self.workers: set[int] = set()  # those whose end was not noticed yet: they die with the server
        self._lost, self._last_request = False, 0
        self._responses: dict[int, Any] = {}
        self._timeout = START_SECONDS  # until its first response
        self._deadline = self._next_look = 0.0

    @property
    def usable(self) -> bool:
        return not self._lost and not self.dead

    @property
    def dead(self) -> bool:
        return self._process.poll() is not None

    def request_fork(self, theirs: socket.socket) -> int:
        """Request a new worker, which has this socket; `forked` with the number returned here gives its pid."""
        return self._request(("fork",), (theirs.fileno(),))

    def forked(self, number: int, until: float) -> int | None:
        """The pid of the new worker; None if the server has not responded by then."""
        pid = self._response(number, until)
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
        """Use it no longer. It is kept while it has workers."""
        self._lost = True

    def close(self) -> None:
        """End it, and with it all its workers."""
        self._lost = True
        self._channel.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)

    def _request(self, request: tuple, fds: tuple[int, ...] = ()) -> int:
        if self._lost:
            raise _lost()
        now = time.monotonic()
        self._last_request += 1
        self._deadline, self._next_look = now + self._timeout, now + LOOK_SECONDS
        try:
            self._channel.send((self._last_request, *request), fds, LOOK_SECONDS)
        except BaseException as error:
            self._lost = True
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
                    self._lost = True
                    raise _lost() from None
                if time.monotonic() >= until:
                    return None
                continue
            except ChannelClosed:
                self._lost = True
                raise _lost() from None
            with DeferInterrupt():  # else a response could be lost between the channel and its dict
                (responded, value), _ = self._channel.receive()
                self._responses[responded], self._timeout = value, RESPONSE_SECONDS
        return self._responses.pop(number)

    def _hangs(self) -> bool:
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + LOOK_SECONDS
        return now > self._deadline or self.dead or self._is_stopped()

    def _is_stopped(self) -> bool:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED
        return False


def _lost() -> ForkServerLost:
    return ForkServerLost("the fork server died, was stopped, or takes too long to respond")


# --- in the server's process ------------------------------------------------------------------------------------------


def main(fd: int, parent: int) -> None:
    """Serve until the parent closes the channel. Responses have the number of their request."""
    set_up_child(parent)
    channel = FdChannel(socket.socket(fileno=fd))
    me = os.getpid()
    while True:
        try:
            (number, method, *args), fds = channel.receive()
        except ChannelClosed:
            os._exit(0)
        if method == "fork":
            pid = os.fork()
            if pid == 0:
                channel.close()
                linux.main(fds[0], me)
            os.close(fds[0])
            channel.send((number, pid))
        else:
            channel.send((number, collect(*args)))
