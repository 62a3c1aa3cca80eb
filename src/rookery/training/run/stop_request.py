"""Stopping when asked: finish the step, save, leave. Asked twice, leave at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

SHOW_CURSOR = "\x1b[?25h"


class StopRequest:
    """While it is held (`with`), SIGINT and SIGTERM are noted instead of raised; a second SIGINT ends the process."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether the run should end."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that was asked to stop."""
        return 0 if self.signal is None else 128 + self.signal

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python does not allow handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            if sys.stderr.isatty():
                sys.stderr.write(SHOW_CURSOR)
                sys.stderr.flush()
            os._exit(128 + number)  # workers notice that their parent is gone
        self.signal = number
