"""The fork server as an engine sees it: it is asked for workers, and given up if it does not answer."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from typing import Any

import psutil

from rookery.engine.workers.channel import ChannelClosed, ChannelTimeout, pair
from rookery.engine.workers.child_process import interpreter

START_SECONDS = 60.0  # at first it has everything to import, on a machine that may be busy
ANSWER_SECONDS = 10.0  # later it only forks
LOOK_SECONDS = 0.5  # how often it is looked at meanwhile
END_SECONDS = 5.0  # longer than a killed process takes to go, unless it is stuck in the kernel


class ForkServerLost(OSError):
    """It died, was stopped, or takes too long."""


class ForkServer:
    """A process with everything imported (nursery.py) that forks workers."""

    def __init__(self) -> None:
        self._channel, theirs = pair()
        try:
            self._process = interpreter("forkserver", theirs)
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()
        self._in_step = True  # whether the next answer belongs to the next question
        self._patience = START_SECONDS

    @property
    def usable(self) -> bool:
        return self._in_step and not self.dead

    @property
    def dead(self) -> bool:
        return self._process.poll() is not None

    def fork(self, theirs: socket.socket) -> int:
        """The pid of a new worker, which has this socket."""
        return self._ask(("fork",), (theirs.fileno(),))

    def status(self, pid: int) -> int | None:
        """How a worker that has ended did so; None if that cannot be known."""
        with contextlib.suppress(ForkServerLost):
            return self._ask(("wait", pid))
        return None

    def close(self) -> None:
        """End it, and with it all its workers."""
        self._channel.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)

    def _ask(self, question: tuple, fds: tuple[int, ...] = ()) -> Any:
        if not self._in_step:
            raise ForkServerLost("the fork server does not answer")
        self._in_step = False  # until it has answered, whatever comes between
        try:
            self._channel.send(question, fds, LOOK_SECONDS)
            answer = self._answer()
        except (ChannelClosed, ChannelTimeout):
            raise ForkServerLost("the fork server died, was stopped, or takes too long to answer") from None
        self._in_step, self._patience = True, ANSWER_SECONDS
        return answer

    def _answer(self) -> Any:
        """Wait long for one that is at work, and not for one that was stopped."""
        deadline = time.monotonic() + self._patience
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
