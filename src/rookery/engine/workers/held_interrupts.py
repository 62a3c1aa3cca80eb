"""Holding Ctrl-C back for a moment: after half a message, the process at the other end would wait for ever."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Undisturbed:
    """A section that a first Ctrl-C does not break off; it takes effect at the end. A second one does at once."""

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
