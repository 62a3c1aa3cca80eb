"""Starts the processes that read long metrics files, one after the other."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from pathlib import Path

BUILDER = "rookery.web.run_views.column_builder"
MOST_WAITING = 100
FIRST_SECONDS = 1.0  # for the page that asked: its curves from samples need the processor more


class ColumnJobs:
    """A queue of files to read; asking for one again while it waits or is read changes nothing."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Path, Path]] = deque()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._current: Path | None = None
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def ask(self, metrics: Path, folder: Path) -> None:
        """Read this file soon; the latest to be asked for comes first."""
        with self._lock:
            if self._closed.is_set() or metrics == self._current or (metrics, folder) in self._waiting:
                return
            self._waiting.append((metrics, folder))
            if len(self._waiting) > MOST_WAITING:
                self._waiting.popleft()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="rookery columns", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the process at work. What it has saved stays."""
        with self._lock:
            self._closed.set()
            self._waiting.clear()
            process, thread = self._process, self._thread
        if process is not None:
            process.kill()
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        self._closed.wait(FIRST_SECONDS)
        while True:
            with self._lock:
                if self._closed.is_set() or not self._waiting:
                    self._thread = self._current = self._process = None
                    return
                self._current, folder = self._waiting.pop()
                command = [sys.executable, "-m", BUILDER, str(self._current), str(folder)]
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            self._process.wait()
