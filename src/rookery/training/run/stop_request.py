"""Stopping on a signal: finish the step, save, end. On a second SIGINT, end at once.

Before a run's first step there is nothing to save, and making nets can take long: a signal then ends it at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

SHOW_CURSOR = "\x1b[?25h"


class StopRequest:
    """Within `with`, SIGINT and SIGTERM raise KeyboardInterrupt and SystemExit until `begin()`. From then on they set a
    flag instead; a second SIGINT ends the process."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._has_begun = False
        self._before: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether the run should end."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that a signal stopped."""
        return 0 if self.signal is None else 128 + self.signal

    def begin(self) -> None:
        """The run makes steps from now on: it must save before it ends."""
        self._has_begun = True

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python does not allow handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._has_begun:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        if self.signal is not None and number == signal.SIGINT:
            if sys.stderr.isatty():
                sys.stderr.write(SHOW_CURSOR)
                sys.stderr.flush()
            os._exit(128 + number)  # workers end when their parent has
        self.signal = number
