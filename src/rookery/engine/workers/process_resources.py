"""What a process engine holds: its workers, those that take the place of lost ones, and the shared memory."""

from __future__ import annotations

import math
import mmap
import os
import time
from collections.abc import Callable, Generator
from typing import Any

from rookery.engine.failure import Failure
from rookery.engine.workers.channel import ChannelTimeout
from rookery.engine.workers.launcher import Launcher
from rookery.engine.workers.worker_handle import WorkerHandle, stop_workers


class RestartingWorker:
    """A worker that is being started in the place of a lost one. Steps do not wait for it: `advance` does what can be
    done at once.

    Args:
        converse: Gives the requests to the new worker one by one, and is sent their responses.
        timeout: Seconds until it must have built its envs; None: any time.
        env_timeout: From then on, seconds that each env may take to reset.
    """

    def __init__(
        self,
        number: int,
        launcher: Launcher,
        converse: Callable[[WorkerHandle], Generator[int, Any, None]],
        timeout: float | None,
        env_timeout: float | None,
    ) -> None:
        self.number, self._launcher, self._converse = number, launcher, converse
        self.handle: WorkerHandle | None = None
        self._deadline, self._env_timeout, self._row = math.inf, env_timeout or math.inf, -1
        if timeout is not None:
            self._deadline = time.monotonic() + timeout
        self._launch = launcher.begin()

    def advance(self) -> bool:
        """Whether it has taken its place. Raises Failed, ChannelClosed, ChannelTimeout or OSError if it never will."""
        if self.handle is None:
            started = self._launch.poll(0.0)
            if started is None:
                self._check_time(-1)
                return False
            self.handle = WorkerHandle(self.number, self._launcher, started)
            self._conversation = self._converse(self.handle)
            self._request = next(self._conversation)
        while True:
            try:
                value = self.handle.response(self._request, deadline=0.0)
            except ChannelTimeout:
                self._check_time(self.handle.current_row())
                return False
            try:
                self._request = self._conversation.send(value)
            except StopIteration:
                return True

    def _check_time(self, row: int) -> None:
        now = time.monotonic()
        if row != self._row:
            self._row, self._deadline = row, now + self._env_timeout
        if now > self._deadline:
            raise ChannelTimeout

    def abort(self) -> int | None:
        """End it; returns its exit status, if it is known."""
        if self.handle is None:
            self._launch.abort()
            return None
        self.handle.process.kill()
        status = self.handle.process.wait()
        self.handle.discard()
        return status


class ProcessResources:
    """All resources of the system that a process engine holds, so that one call releases them."""

    def __init__(self, launcher: Launcher) -> None:
        self.launcher = launcher
        self.block: Any = None
        self.handles: list[WorkerHandle] = []
        self.restarting: dict[int, RestartingWorker] = {}  # by the worker's number; its handle there is discarded
        self._owner, self._closed = os.getpid(), False

    def new_block(self, size: int) -> mmap.mmap:
        """A shared block that replaces the one there was."""
        self._release_block()
        self.block = self.launcher.new_block(size)
        return self.block.memory

    def close(self, timeout: float) -> list[Failure]:
        """End all workers. It may be called again, and at interpreter exit; it does nothing in a forked child, which
        does not own them."""
        if os.getpid() != self._owner or self._closed:
            return []
        self._closed = True
        handles, self.handles[:] = list(self.handles), []
        try:
            while self.restarting:
                self.restarting.popitem()[1].abort()
            return stop_workers(handles, timeout)
        finally:
            self._release_block()
            self.launcher.close()

    def _release_block(self) -> None:
        if self.block is not None:
            self.block.close()
            self.block = None
