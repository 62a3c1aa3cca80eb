"""How portable workers and their parent wake each other: by pipes or, where one can wait for sockets alone, by these.

One wake-up (write, wait, read) on a machine whose kernel is slow with sockets: 1.5 us by pipes, 9 us by sockets, 15 us
by sockets and Python's `selectors`; an eventfd takes 1.3 us.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterable
from typing import Any

from rookery.engine.workers.channel import NO_SIGNAL, SLICE_SECONDS, ChannelClosed

BY_PIPES = hasattr(select, "poll")  # not on Windows, whose `select` knows sockets only
AT_ONCE = 64  # bytes to read: if a wake-up was set more often it stays set, which costs one look too many


class Wakeup:
    """One end of two: each side can wake the other, and sees when the other is gone."""

    def __init__(self, fd: int) -> None:
        self.fd, self._waiting = fd, Readable([fd])

    def set(self) -> None:
        """Wake the other side."""
        raise NotImplementedError

    def wait(self, seconds: float) -> None:
        """Sleep until the other side sets it, at most so long, and clear it."""
        if self._waiting.wait(seconds) and not self.clear():
            raise ChannelClosed("end of file")

    def clear(self) -> bool:
        """Whether the other side is still there."""
        try:
            return bool(self._read())
        except BlockingIOError:
            return True
        except OSError:  # a killed process leaves a reset behind, not an end of file
            return False

    def _read(self) -> bytes:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class PipeWakeup(Wakeup):
    """Reads from one pipe and writes to another. `kept` is the far end of the latter: while it is open here, a write
    to a dead process raises no SIGPIPE, which may end a program."""

    def __init__(self, read: int, write: int, kept: tuple[int, ...] = ()) -> None:
        super().__init__(read)
        self._write, self._kept = write, kept
        for fd in (read, write):
            os.set_blocking(fd, False)

    def set(self) -> None:
        try:
            os.write(self._write, b"\x01")
        except OSError:
            pass  # it is set already, or nobody is there: found by those who wait

    def _read(self) -> bytes:
        return os.read(self.fd, AT_ONCE)

    def close(self) -> None:
        for fd in (self.fd, self._write, *self._kept):
            os.close(fd)


class SocketWakeup(Wakeup):
    """One of a pair of sockets."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock.fileno())
        self._socket = sock
        sock.setblocking(False)
        if sock.family == socket.AF_INET:  # a pair on Windows: send single bytes at once
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def set(self) -> None:
        try:
            self._socket.send(b"\x01", NO_SIGNAL)
        except OSError:
            pass

    def _read(self) -> bytes:
        return self._socket.recv(AT_ONCE)

    def close(self) -> None:
        self._socket.close()


def wakeup_pair() -> tuple[Wakeup, list[Any]]:
    """This process's end, and the socket or the ends of pipes for the other process."""
    if not BY_PIPES:
        ours, theirs = socket.socketpair()
        return SocketWakeup(ours), [theirs]
    made: list[int] = []
    try:
        made += os.pipe()
        made += os.pipe()
        made.append(os.dup(made[2]))
    except BaseException:  # no descriptors are free
        close_ends(made)
        raise
    in_read, in_write, out_read, out_write, kept = made
    return PipeWakeup(in_read, out_write, (kept,)), [out_read, in_write]


def other_end(ends: list[Any]) -> Wakeup:
    """The other process's wake-up, of what `wakeup_pair` made for it."""
    return PipeWakeup(*ends) if len(ends) == 2 else SocketWakeup(*ends)


def close_ends(ends: Iterable[Any]) -> None:
    """Close sockets and descriptors."""
    for end in ends:
        if isinstance(end, int):
            os.close(end)
        else:
            end.close()


class Readable:
    """Waits until descriptors can be read, with the quickest call there is."""

    def __init__(self, fds: Iterable[int]) -> None:
        self._fds = list(fds)
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            for fd in self._fds:
                self._poll.register(fd, select.POLLIN)

    def wait(self, seconds: float) -> list[int]:
        """Those that have bytes or have ended, within so many seconds."""
        if self._poll is not None:
            return [fd for fd, _ in self._poll.poll(seconds * 1000)]
        if not self._fds:  # Windows refuses to wait for nothing
            time.sleep(seconds)
            return []
        return select.select(self._fds, [], [], seconds)[0]


class WakeupPoll:
    """What the parent sleeps on: a byte from any of these workers, or the end of its stream."""

    def __init__(self, handles: Iterable[Any]) -> None:
        self._handles = {handle.wakeup.fd: handle for handle in handles}
        self._waiting = Readable(self._handles)

    def wait(self, seconds: float) -> list[int]:
        """Sleep until something happens, at most so long. Returns the numbers of workers that have died."""
        ready = self._waiting.wait(min(seconds, SLICE_SECONDS))
        if not ready:  # a process that a worker has started may hold its end open
            return [handle.number for handle in self._handles.values() if handle.process.has_ended()]
        return [handle.number for fd in ready if not (handle := self._handles[fd]).wakeup.clear()]
