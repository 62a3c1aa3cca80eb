"""Starts worker processes with what every system has: a new interpreter each, sockets or pipes, one to live by."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from rookery import forks
from rookery.console import say
from rookery.engine.workers.channel import Channel
from rookery.engine.workers.child_process import ONE_THREAD
from rookery.engine.workers.platform.portable import NEW_GROUP, Guardian, NamedBlock, PipedProcess
from rookery.engine.workers.platform.portable_wakeups import Wakeup, WakeupPoll, close_ends, wakeup_pair

BOOT = """
import json, os, sys
hello = json.loads(sys.stdin.buffer.readline())
sys.path[:] = hello["path"]
from rookery.engine.workers.portable_worker import main
main(hello["ends"])
"""


class PortableLaunch:
    """A worker that was started; what Linux does in two parts is one here."""

    def __init__(self, started: tuple[PipedProcess, Channel, Wakeup]) -> None:
        self._started = started

    def poll(self, _: float) -> tuple[PipedProcess, Channel, Wakeup]:
        """The worker, its channel and its wake-up."""
        return self._started

    def abort(self) -> None:
        """End it."""
        process, channel, wakeup = self._started
        process.kill()
        process.wait()
        for part in (process, channel, wakeup):
            part.close()


class PortableLauncher:
    """Starts the workers of one engine, and owns what they share with it."""

    method = "spawn"

    def __init__(self, method: str) -> None:
        if method != self.method:
            say(f"start_method={method!r} is for Linux: workers are started by 'spawn'")
        self._guardian = Guardian()

    def start(self) -> tuple[PipedProcess, Channel, Wakeup]:
        """A new worker that listens on the channel, and the wake-up that is shared with it."""
        ours, theirs = socket.socketpair()
        ends: list[Any] = [theirs]
        try:
            wakeup, its = wakeup_pair()
            ends += its
            try:
                process = self._spawn(ends)
            except BaseException:
                wakeup.close()
                raise
        except BaseException:
            ours.close()
            raise
        finally:
            close_ends(ends)
        return process, Channel(ours, process.has_ended), wakeup

    def begin(self) -> PortableLaunch:
        """Start a worker, without waiting for it."""
        return PortableLaunch(self.start())

    def new_block(self, size: int) -> NamedBlock:
        return NamedBlock(size, self._guardian)

    def poll(self, handles: Iterable[Any]) -> WakeupPoll:
        """What to sleep on for these workers."""
        return WakeupPoll(handles)

    def wakeups(self, wakeup: Any) -> tuple[Wakeup, ...]:
        """None that a worker would have to be sent: it has its end already."""
        return ()

    def close(self) -> None:
        self._guardian.close()

    def _spawn(self, theirs: list[Any]) -> PipedProcess:
        read, life = os.pipe()
        forks.keep_from_children(life)  # the worker waits until nobody holds this end
        environment = {**os.environ, **ONE_THREAD}
        inherited: dict[str, Any] = {} if sys.platform == "win32" else {"pass_fds": [*map(_number, theirs)]}
        try:
            child = subprocess.Popen(
                [_python(environment), "-c", BOOT], stdin=read, env=environment, creationflags=NEW_GROUP,
                **inherited,
            )  # fmt: skip
        except BaseException:
            forks.close(life)
            raise
        finally:
            os.close(read)
        process = PipedProcess(child, life, self._guardian)
        path = [entry for entry in sys.path if isinstance(entry, str)]  # Python itself ignores others, such as a Path
        hello = {"path": path, "ends": [_ticket(end, child.pid) for end in theirs]}
        with contextlib.suppress(OSError):  # it has died: found with the first request
            os.write(life, json.dumps(hello).encode() + b"\n")
        return process


def _python(environment: dict[str, str]) -> str:
    """The interpreter. In a virtual environment on Windows, `sys.executable` starts another process and waits for it:
    the number of that one would not be known here."""
    if sys.platform == "win32" and hasattr(sys, "_base_executable"):
        environment["__PYVENV_LAUNCHER__"] = sys.executable
        return sys._base_executable
    return sys.executable


def _number(end: Any) -> int:
    return end if isinstance(end, int) else end.fileno()


def _ticket(end: Any, pid: int) -> Any:
    """How the child finds a socket or pipe: by the number it inherits or, on Windows, by a copy that is made for it."""
    if sys.platform == "win32":
        return base64.b64encode(end.share(pid)).decode()
    return _number(end)


def socket_of(ticket: Any) -> socket.socket:
    """The other side of `_ticket` for a socket, in the child."""
    if sys.platform == "win32":
        return socket.fromshare(base64.b64decode(ticket))
    return socket.socket(fileno=ticket)
