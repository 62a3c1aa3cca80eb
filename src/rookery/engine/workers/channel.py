"""Messages between parent and worker, on a socket. Steps do not use it."""

from __future__ import annotations

import contextlib
import pickle
import selectors
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import cloudpickle

_HEADER = struct.Struct("<QB")  # length, number of descriptors
NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)  # SIGPIPE may end a program, but should not for a dead worker
SLICE_SECONDS = 0.2  # of a wait: Windows handles Ctrl-C only when a wait is over, and a death may be seen only then

NO_REPLY = 0  # the number of a message that gets no response


class ChannelClosed(Exception):
    """The other side is gone."""


class ChannelTimeout(Exception):
    """The other side did not respond in time."""


class DeferInterrupt:
    """Delays a first Ctrl-C to the end of the `with` block; a second one takes effect at once.

    After half a message, the process at the other end would wait for ever.
    """

    def __enter__(self) -> None:
        self._held: list[tuple[int, FrameType | None]] = []
        self._handler: Any = None
        if threading.current_thread() is threading.main_thread():  # where Python handles signals
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                signal.signal(signal.SIGINT, self._hold)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._held.append((number, frame))
        if len(self._held) > 1:
            self._handler(number, frame)

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            if len(self._held) == 1:
                self._handler(*self._held[0])


class Channel:
    """Sends and receives pickled objects. `has_ended` says whether the other process has."""

    def __init__(self, sock: socket.socket, has_ended: Callable[[], bool] = lambda: False) -> None:
        self.socket, self._has_ended = sock, has_ended
        # The part of the next message that has arrived. Kept here: Ctrl-C may interrupt a long one.
        self._header, self._fds = bytearray(), list[int]()
        self._data: bytearray | None = None
        self._filled = list[int]()

    def send(self, message: Any, fds: tuple[int, ...] = (), timeout: float | None = None) -> None:
        data = dumps(message)
        self.socket.settimeout(timeout)
        try:
            self._send_header(_HEADER.pack(len(data), len(fds)), fds)
            self.socket.sendall(data, NO_SIGNAL)
        except TimeoutError:
            self.break_off()
            raise ChannelTimeout from None
        except OSError as error:
            raise ChannelClosed(str(error)) from None
        except BaseException:  # raised by a signal handler
            self.break_off()
            raise
        finally:
            self.socket.settimeout(None)

    def _send_header(self, header: bytes, fds: tuple[int, ...]) -> None:
        """Descriptors go with it on Linux only."""
        assert not fds
        self.socket.sendall(header, NO_SIGNAL)

    def _receive_header(self, size: int) -> bytes:
        return self.socket.recv(size)

    def break_off(self) -> None:
        """Show the other side an end of file: after half a message it would wait for the rest for ever."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def receive(self, timeout: float | None = None) -> tuple[Any, list[int]]:
        """The next message and the descriptors that came with it."""
        data, fds = self.gather(timeout), self._fds
        self._header, self._fds, self._data = bytearray(), [], None
        return pickle.loads(data), fds  # noqa: S301 - from a live process of this engine

    def gather(self, timeout: float | None = None) -> bytearray:
        """Wait until the next message has arrived completely; `receive` then returns it at once."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while len(self._header) < _HEADER.size:
            self._await(deadline)
            with DeferInterrupt():  # else what was read could be lost before it is stored
                self._read_header()
        if self._data is None:
            self._filled = []  # first: with new data and old counts, the message would look complete
            self._data = bytearray(_HEADER.unpack(self._header)[0])
        self._fill(memoryview(self._data), deadline)
        return self._data

    def _read_header(self) -> None:
        try:
            part = self._receive_header(_HEADER.size - len(self._header))
        except OSError as error:
            raise ChannelClosed(str(error)) from None
        if not part:
            raise ChannelClosed("end of file")
        self._header += part

    def _fill(self, view: memoryview, deadline: float | None) -> None:
        while sum(self._filled) < len(view):
            self._await(deadline)
            try:
                # One call in C, so that Ctrl-C cannot come between reading and counting.
                self._filled.extend(map(self.socket.recv_into, (view[sum(self._filled) :],)))
            except OSError as error:  # a killed process leaves a reset behind, not an end of file
                raise ChannelClosed(str(error)) from None
            if not self._filled[-1]:
                raise ChannelClosed("end of file")

    def _await(self, deadline: float | None) -> None:
        """Wait for bytes, for the other process's end (what it sent before is still read), or for the deadline."""
        while True:
            left = SLICE_SECONDS if deadline is None else min(SLICE_SECONDS, max(0.0, deadline - time.monotonic()))
            has_ended = self._has_ended()
            if is_readable(self.socket, 0.0 if has_ended else left):
                return
            if has_ended:
                raise ChannelClosed("the process died")
            if deadline is not None and time.monotonic() >= deadline:
                raise ChannelTimeout

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        self.socket.close()


def dumps(message: Any) -> bytes:
    """By reference where possible, by value for what lives in a script or notebook."""
    try:
        return pickle.dumps(message, protocol=5)
    except Exception:  # noqa: BLE001 - pickle fails in many ways; cloudpickle's own error is the one to show
        return cloudpickle.dumps(message, protocol=5)


def new_selector() -> selectors.BaseSelector:
    """One that holds no descriptor of its own. Where there is `poll`, any number of files may be open."""
    return getattr(selectors, "PollSelector", selectors.SelectSelector)()


def is_readable(sock: socket.socket, seconds: float) -> bool:
    """Whether bytes, or the end of the stream, come within so many seconds."""
    try:
        with new_selector() as selector:
            selector.register(sock, selectors.EVENT_READ)
            return bool(selector.select(seconds))
    except (OSError, ValueError) as error:  # it was closed
        raise ChannelClosed(str(error)) from None
