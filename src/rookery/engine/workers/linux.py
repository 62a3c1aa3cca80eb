"""Workers on Linux: shared memory without a name, wake-ups by eventfd, deaths by pidfd.

Both sides first poll a word in shared memory for a moment, and sleep on an eventfd only then. Measured on 2 cores with
CartPole, 8 envs: 93 k steps/s when every wake-up goes through an eventfd, 141 k with polling (`sched_yield` between
two reads).
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import mmap
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from rookery.engine.workers.channel import NO_SIGNAL, Channel, ChannelClosed, ChannelTimeout
from rookery.engine.workers.child_process import set_up_child
from rookery.engine.workers.worker import Worker, run_worker

END_SECONDS = 5.0  # longer than a killed process takes to end, unless it is stuck in the kernel
_MAP_FIXED = 0x10
_MAX_FDS = 8


class FdChannel(Channel):
    """A channel that also carries file descriptors. `peer` is one that becomes readable when the other process dies."""

    peer: int | None = None

    def _send_header(self, header: bytes, fds: tuple[int, ...]) -> None:
        """As `socket.send_fds`, which takes no flags: SIGPIPE may end a program, but should not for a dead worker."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([header], rights, NO_SIGNAL)

    def _receive_header(self, size: int) -> bytes:
        part, new, _, _ = socket.recv_fds(self.socket, size, _MAX_FDS)
        self._fds += new
        return part

    def _await(self, deadline: float | None) -> None:
        """Wait for bytes, for the peer's death (what it sent before is still read), or for the deadline."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        if self.peer is not None:
            poll.register(self.peer, select.POLLIN)
        left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
        try:
            ready = {fd for fd, _ in poll.poll(left)}
        except OSError as error:
            raise ChannelClosed(str(error)) from None
        if not ready:
            raise ChannelTimeout
        if self.socket.fileno() not in ready:
            raise ChannelClosed("the process died")


def pair() -> tuple[FdChannel, socket.socket]:
    """This process's end as a channel, and the other end as a socket for the child process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return FdChannel(ours), theirs


class EventfdWakeup:
    """An event between two processes: one sets it, the other waits for it and clears it."""

    def __init__(self, fd: int | None = None) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) if fd is None else fd
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)

    def set(self) -> None:
        try:
            os.write(self.fd, b"\x01\0\0\0\0\0\0\0")
        except BlockingIOError:
            pass  # it is set already

    def wait(self, seconds: float) -> None:
        """Sleep until it is set, at most so long, and clear it."""
        if self._poll.poll(seconds * 1000):
            self.clear()

    def clear(self) -> None:
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            pass

    def close(self) -> None:
        os.close(self.fd)


class PidfdProcess:
    """A worker process: its pid, a descriptor that becomes readable when it ends, and its exit status."""

    def __init__(self, pid: int, reap: Callable[[], int | None]) -> None:
        self.pid, self._reap = pid, reap
        self.status: int | None = None  # as from os.waitstatus_to_exitcode: negative for a signal
        try:
            self.pidfd = os.pidfd_open(pid)
        except OSError:  # no descriptors are free
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            reap()
            raise

    def kill(self) -> None:
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def wait(self) -> int | None:
        """The exit status of a process that has ended or was killed. None if it is not known, and if the process is
        stuck in the kernel, where not even SIGKILL ends it."""
        if self.status is None and self.pidfd >= 0 and self.ends_within(END_SECONDS):
            self.status = self._reap()
        return self.status

    def close(self) -> None:
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


def collect(pid: int) -> int | None:
    """The exit status of a child that has ended."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return None


class PidfdPoll:
    """What the parent sleeps on: its own wake-up, and the deaths of these workers."""

    def __init__(self, wakeup: EventfdWakeup, handles: Iterable[Any]) -> None:
        self._wakeup, self._numbers = wakeup, {handle.process.pidfd: handle.number for handle in handles}
        self._poll = select.poll()
        for fd in (wakeup.fd, *self._numbers):
            self._poll.register(fd, select.POLLIN)

    def wait(self, seconds: float) -> list[int]:
        """Sleep until something happens, at most so long. Returns the numbers of workers that have died."""
        dead = []
        for fd, _ in self._poll.poll(seconds * 1000):
            if fd == self._wakeup.fd:
                self._wakeup.clear()
            else:
                dead.append(self._numbers[fd])
        return dead


class MemfdBlock:
    """Shared memory of `size` bytes, allocated at once: a page that is missing later would raise SIGBUS."""

    def __init__(self, size: int) -> None:
        self._fd = os.memfd_create("rookery", os.MFD_CLOEXEC)
        try:
            os.posix_fallocate(self._fd, 0, size)
            self.memory = _map(self._fd, size)
        except BaseException:
            os.close(self._fd)
            raise

    def offer(self, wakeups: tuple[EventfdWakeup, ...]) -> tuple[int, tuple[int, ...]]:
        """What a worker needs to attach: how many descriptors, and these."""
        fds = (self._fd, *(wakeup.fd for wakeup in wakeups))
        return len(fds), fds

    def close(self) -> None:
        os.close(self._fd)


def accept(sent: int, fds: list[int], size: int) -> tuple[mmap.mmap, list[EventfdWakeup]]:
    """What the parent has offered: the memory, and wake-ups if they are new."""
    if len(fds) < sent:  # the kernel silently drops those beyond the limit
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    block, *wakeups = fds
    memory = _map(block, size)
    os.close(block)
    return memory, [EventfdWakeup(fd) for fd in wakeups]


def _map(block: int, size: int) -> mmap.mmap:
    """The block as memory. `mmap.mmap(block, size)` would keep a descriptor open for as long as anything refers to the
    memory: an array that a caller kept, or the traceback of an error. So the block is mapped over anonymous memory,
    which has no descriptor."""
    memory = mmap.mmap(-1, size)
    place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    c_mmap = ctypes.CDLL(None, use_errno=True).mmap
    c_mmap.restype = ctypes.c_void_p
    c_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_ssize_t]
    access, how = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED
    if c_mmap(place, size, access, how, block, 0) != place:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return memory


# --- in the worker process --------------------------------------------------------------------------------------------


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
