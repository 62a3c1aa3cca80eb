"""The first code of a worker process that was started by `PortableLauncher`."""

from __future__ import annotations

import mmap
import os
import threading
from typing import Any

from rookery.engine.workers.channel import Channel
from rookery.engine.workers.child_process import ignore_signals
from rookery.engine.workers.platform.portable import accept
from rookery.engine.workers.platform.portable_wakeups import Wakeup, other_end
from rookery.engine.workers.portable_launcher import socket_of
from rookery.engine.workers.worker import Worker, run_worker


def main(tickets: list[Any]) -> None:
    """Serve until the engine requests an exit, or until the parent is gone. Never returns."""
    ignore_signals()
    life = os.dup(0)  # the pipe from the parent
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # envs that read their input find it empty
    os.close(nothing)
    threading.Thread(target=_end_with, args=(life,), name="rookery-parent", daemon=True).start()
    messages, *bell = tickets
    ends = bell if len(bell) == 2 else [socket_of(ticket) for ticket in bell]  # two ends of pipes, or a socket
    run_worker(PortableWorker(Channel(socket_of(messages)), other_end(ends)))


def _end_with(life: int) -> None:
    """End this process when its parent ends. An env that holds Python's lock delays that; the guardian does not."""
    while os.read(life, 1):
        pass
    os._exit(1)


class PortableWorker(Worker):
    """A worker that opens shared memory by its name."""

    def __init__(self, channel: Channel, wakeup: Wakeup) -> None:
        super().__init__(channel, os.getppid())
        self._wakeup = self._parent_wakeup = wakeup

    def _accept(self, ticket: Any, fds: list[int], size: int) -> mmap.mmap:
        return accept(ticket, size)
