"""The first code of a worker process that was started by `WorkerLauncher`."""

from __future__ import annotations

import mmap
import os
import socket
from typing import Any

from rookery.engine.workers.child_process import set_up_child
from rookery.engine.workers.platform.linux import FdChannel, accept
from rookery.engine.workers.worker import Worker, run_worker


def main(fd: int, parent: int) -> None:
    """Serve until the engine requests an exit, or until the parent is gone. Never returns."""
    set_up_child(parent)
    run_worker(LinuxWorker(FdChannel(socket.socket(fileno=fd)), os.getppid()))


class LinuxWorker(Worker):
    """A worker that is sent descriptors of shared memory and wake-ups."""

    def _accept(self, ticket: Any, fds: list[int], size: int) -> mmap.mmap:
        memory, wakeups = accept(ticket, fds, size)
        if wakeups:
            self._wakeup, self._parent_wakeup = wakeups
        return memory
