"""The parent's side of the fork server: requests new workers, and gives the server up if it does not respond."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from typing import Any

import psutil

from rookery.engine.workers.channel import ChannelClosed, ChannelTimeout
from rookery.engine.workers.child_process import interpreter
from rookery.engine.workers.platform.linux import END_SECONDS, pair

START_SECONDS = 60.0  # it first imports everything, on a machine that may be busy
RESPONSE_SECONDS = 10.0  # later it only forks
LOOK_SECONDS = 0.5  # how often it is checked meanwhile


class ForkServerLost(OSError):
    """It died, was stopped, or takes too long."""


class ForkServer:
    """A process with everything imported (`forkserver.py`) that forks workers."""

    def __init__(self) -> None:
        self._channel, theirs = pair()
        try:
            self._process = interpreter("forkserver", theirs)
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()
        self._in_sync = True  # whether the next response belongs to the next request
        self._timeout = START_SECONDS

    @property
    def usable(self) -> bool:
        return self._in_sync and not self.dead

    @property
    def dead(self) -> bool:
        return self._process.poll() is not None

    def fork(self, theirs: socket.socket) -> int:
        """The pid of a new worker, which has this socket."""
        return self._request(("fork",), (theirs.fileno(),))

    def status(self, pid: int) -> int | None:
        """The exit status of a worker that has ended; None if it cannot be known."""
        with contextlib.suppress(ForkServerLost):
            return self._request(("wait", pid))
        return None

    def close(self) -> None:
        """End it, and with it all its workers."""
        self._channel.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)

    def _request(self, request: tuple, fds: tuple[int, ...] = ()) -> Any:
        if not self._in_sync:
            raise ForkServerLost("the fork server does not respond")
        self._in_sync = False  # until it has responded, whatever is raised between
        try:
            self._channel.send(request, fds, LOOK_SECONDS)
            response = self._response()
        except (ChannelClosed, ChannelTimeout):
            raise ForkServerLost("the fork server died, was stopped, or takes too long to respond") from None
        self._in_sync, self._timeout = True, RESPONSE_SECONDS
        return response

    def _response(self) -> Any:
        """Wait long for a server that is working, but not for one that was stopped."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return self._channel.receive(LOOK_SECONDS)[0]
            except ChannelTimeout:
                if time.monotonic() > deadline or self._is_stopped():
                    raise

    def _is_stopped(self) -> bool:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED
        return False
