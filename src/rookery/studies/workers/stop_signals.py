"""Stopping a worker: by a signal, whether a run is under way or not."""

from __future__ import annotations

import os
import signal
from types import FrameType

ASKED = "asked to stop"


class StopSignals:
    """From when it is made, SIGTERM asks this process to stop: `reason` says why. A run that is under way has its own
    handler, saves and ends as interrupted. SIGINT is for the supervisor."""

    def __init__(self) -> None:
        self.reason = ""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_signal)

    def __bool__(self) -> bool:
        return bool(self.reason)

    def ask(self, reason: str = ASKED) -> None:
        """Stop, from any thread: what was asked first counts, except that a general stop counts more."""
        if not self.reason or reason == ASKED:
            self.reason = reason
        os.kill(os.getpid(), signal.SIGTERM)

    def noticed(self) -> None:
        """A run has ended as interrupted: its handler has taken the signal."""
        self.reason = self.reason or ASKED

    def clear(self, reason: str) -> None:
        """Go on, if this was the reason."""
        if self.reason == reason:
            self.reason = ""

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.noticed()
