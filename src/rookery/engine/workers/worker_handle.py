"""The parent's side of worker processes: requests, responses, restarts, their end, and all that an engine holds."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import pickle
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import cloudpickle

from rookery.engine.batch import ASLEEP, MESSAGES, ROW, WAKEUP, WORKER_WORDS, Batch, BatchSpec
from rookery.engine.loops import fence
from rookery.engine.segments import Segment
from rookery.engine.step_report import Failed, Failure, StepReport
from rookery.engine.workers.channel import NO_REPLY, Channel, ChannelClosed, ChannelTimeout, DeferInterrupt
from rookery.engine.workers.launcher import Launcher

OVERSLEPT_SECONDS = 1.0  # a process that wakes up this late was stopped, as by Ctrl-Z, and its workers with it


class WorkerHandle:
    """Worker `number`: its process, its channel and, once attached, its words in the batch."""

    def __init__(self, number: int, launcher: Launcher, started: tuple[Any, Channel, Any]) -> None:
        self.number, self._launcher = number, launcher
        self.process, self.channel, self.wakeup = started
        self.batch: Batch | None = None
        self.discarded = False  # whether `discard` was called
        self._last_request = 0
        self._pending: set[int] = set()  # requests sent whose responses were not taken yet
        self._values: dict[int, tuple[str, bytes]] = {}
        self._reports: dict[int, bytes] = {}

    def attach(self, batch: Batch) -> None:
        """From now on the worker waits for its wakeup word in this batch rather than for its channel."""
        self.batch, self.words, self._base = batch, batch.worker_words, self.number * WORKER_WORDS
        self.wakeup_word, self.asleep_word = self._base + WAKEUP, self._base + ASLEEP

    def request_attach(
        self, block: Any, spec: BatchSpec, segments: Sequence[Segment], timeout: float | None = None
    ) -> int:
        """Have the worker move to this block of shared memory; it keeps the wake-ups of its first one."""
        wakeups = self._launcher.wakeups(self.wakeup) if self.batch is None else ()
        ticket, fds = block.offer(wakeups)
        return self.request("attach", (ticket, spec, self.number, segments), fds, timeout)

    def request(self, method: str, args: tuple, fds: tuple[int, ...] = (), timeout: float | None = None) -> int:
        """Call a method in the worker; `response` with the number returned here gives its result."""
        self._last_request += 1
        self._post(self._last_request, method, args, fds, timeout)
        return self._last_request

    def notify(self, method: str, args: tuple, timeout: float | None = None) -> None:
        """Call a method in the worker without a response. If the worker dies, the call is lost. A worker that does not
        read it in time is lost."""
        with contextlib.suppress(ChannelClosed, ChannelTimeout):
            self._post(NO_REPLY, method, args, (), timeout)

    def _post(self, number: int, method: str, args: tuple, fds: tuple = (), timeout: float | None = None) -> None:
        packed = cloudpickle.dumps(args)  # by value for what lives in a script or notebook: workers do not import it
        with DeferInterrupt():
            if number != NO_REPLY:
                self._pending.add(number)
            try:
                if self.batch is not None:
                    self.words[self._base + MESSAGES] += 1
                    wake_workers([self])  # first, so that the worker is reading when the message is long
                self.channel.send((number, method, packed), fds, timeout)
            except BaseException:  # from a signal handler: the worker would wait for this message for ever
                self.channel.break_off()
                raise

    def response(self, number: int, timeout: float | None = None, deadline: float | None = None) -> Any:
        """The result of a request. ChannelTimeout is raised when the worker has spent `timeout` seconds on one env, or
        at the `deadline`."""
        while number not in self._values:
            self._receive(timeout, deadline)
        self._pending.discard(number)  # first: `drain` would wait for ever for a response that was taken
        kind, packed = self._values.pop(number)
        value = _load(packed, -1)
        if kind == "failed" or isinstance(value, Failure):
            raise Failed(value)
        return value

    def has_answered(self, number: int, deadline: float) -> bool:
        """Whether the response to a request is here before the deadline, or will never be."""
        try:
            while number not in self._values:
                self._receive(None, deadline)
        except ChannelTimeout:
            return False
        except ChannelClosed:
            return True
        return True

    def drain(self, timeout: float | None) -> None:
        """Read the responses that Ctrl-C kept from being read: a worker with a long response waits for that."""
        while not self._pending <= self._values.keys():
            self._receive(timeout, None)
        for number in self._pending:
            del self._values[number]
        self._pending.clear()

    def read_report(self, index: int, row: int, timeout: float | None = None) -> StepReport:
        """The report of a segment that has one; a failure to read it is attributed to `row`."""
        while index not in self._reports:
            self._receive(timeout, None)
        report = _load(self._reports.pop(index), row)
        return StepReport(failures=[report]) if isinstance(report, Failure) else report

    def _receive(self, timeout: float | None, deadline: float | None) -> None:
        """Read one message. The timeout starts again when the worker has moved on to another env, and after all
        processes were stopped."""
        row = self.current_row()
        while True:
            start = time.monotonic()
            left = timeout if deadline is None else max(0.0, deadline - start)
            try:
                self.channel.gather(left)
                break
            except ChannelTimeout:
                overslept = left is not None and time.monotonic() - start > left + OVERSLEPT_SECONDS
                if deadline is not None or (row == self.current_row() and not overslept):
                    raise
                row = self.current_row()
        with DeferInterrupt():  # else a message could be lost between the channel and its dict
            (kind, number, packed), _ = self.channel.receive()
            if kind == "report":
                self._reports[number] = packed
            else:
                self._values[number] = kind, packed

    def current_row(self) -> int:
        """The env the worker is at."""
        return -1 if self.batch is None else self.words[self._base + ROW]

    def discard(self) -> None:
        """Free what this process holds for a worker that has ended."""
        self.channel.close()
        self.wakeup.close()
        self.process.close()
        self.batch, self.discarded = None, True


def wake_workers(handles: Sequence[WorkerHandle]) -> None:
    """Have workers look for segments and messages: 0.4 us for those that poll, a system call for each that sleeps."""
    for handle in handles:
        handle.words[handle.wakeup_word] += 1
    fence()
    for handle in handles:
        if handle.words[handle.asleep_word]:
            handle.wakeup.set()


def stop_workers(handles: Sequence[WorkerHandle], timeout: float) -> list[Failure]:
    """Close the envs of these workers and end them, within `timeout` seconds whatever they are doing."""
    deadline = time.monotonic() + timeout
    handles = [handle for handle in handles if not handle.discarded]  # such as one that could not be replaced
    try:
        return _request_exit(handles, deadline)
    except BaseException:  # Ctrl-C: kill them at once
        deadline = 0.0
        raise
    finally:
        for handle in handles:
            if not handle.process.ends_within(max(0.0, deadline - time.monotonic())):
                handle.process.kill()
        for handle in handles:
            handle.process.wait()
            handle.discard()


def kill_unresponsive(handles: Sequence[WorkerHandle], timeout: float) -> None:
    """Kill the workers that do not respond within `timeout` seconds."""
    unresponsive = {handle.number: handle for handle in handles}
    for number, _ in _responses(handles, "ping", time.monotonic() + timeout):
        del unresponsive[number]
    for handle in unresponsive.values():
        handle.process.kill()


def _request_exit(handles: Sequence[WorkerHandle], deadline: float) -> list[Failure]:
    return [failure for _, failures in _responses(handles, "exit", deadline) for failure in failures]


def _responses(handles: Sequence[WorkerHandle], method: str, deadline: float) -> Iterator[tuple[int, Any]]:
    """The workers that respond before the deadline, with their results."""
    requests = []
    for handle in handles:
        with contextlib.suppress(ChannelClosed, ChannelTimeout):
            requests.append((handle, handle.request(method, (), timeout=0.5)))
    for handle, number in requests:
        with contextlib.suppress(ChannelClosed, ChannelTimeout, Failed):
            yield handle.number, handle.response(number, deadline=deadline)


def _load(packed: bytes, row: int) -> Any:
    """What a worker sent, or a Failure if it cannot be read here."""
    try:
        return pickle.loads(packed)  # noqa: S301 - from a live worker of this process
    except Exception as error:  # noqa: BLE001 - an object's own __setstate__ or constructor may raise anything
        problem = TypeError(f"what the env returned cannot be read in this process: {type(error).__name__}: {error}")
        return Failure(row, "step", problem)


# --- all workers of an engine -----------------------------------------------------------------------------------------


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
