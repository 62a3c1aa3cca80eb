"""Columns of long metrics files that have none beside them, in the user's cache folder.

Nothing is written to the folders that are shown. A process of its own reads the files:
`python -m rookery.web.run_views.column_cache METRICS...`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path

from rookery.monitor.column_file import COLUMNS, ColumnWriter
from rookery.user_dirs import cache_folder
from rookery.web.run_views.line_file import LineFile

LARGEST_CACHE = 4 << 30
BLOCK = 1 << 23  # bytes of lines in a block of columns
MOST_WAITING = 500
FIRST_SECONDS = 1.0  # for the page that asked: its curves from samples need the processor more
NICE = 10


def cached_columns(metrics: Path) -> Path | None:
    """The file for the columns of a metrics file; None if the user has no safe cache folder."""
    base = cache_folder("columns")
    if base is None:
        return None
    name = hashlib.blake2b(os.fsencode(os.path.abspath(metrics)), digest_size=16).hexdigest()
    return base / "metric-columns" / name / COLUMNS


class ColumnJobs:
    """A queue of files to read; asking for one again while it waits or is read changes nothing."""

    def __init__(self) -> None:
        self._waiting: deque[Path] = deque(maxlen=MOST_WAITING)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._current: list[Path] = []
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def ask(self, metrics: Path) -> None:
        """Read this file soon; the latest to be requested comes first."""
        with self._lock:
            if self._closed.is_set() or metrics in self._current or metrics in self._waiting:
                return
            self._waiting.append(metrics)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="rookery columns", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the process at work. What it has written stays."""
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
                    self._thread = self._process = None
                    return
                self._current = list(self._waiting)[::-1]
                self._waiting.clear()
                command = [sys.executable, "-m", __name__, *map(str, self._current)]
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            self._process.wait()
            self._current = []


def build(metrics: Path) -> None:
    """Bring the columns up to the last complete line of the metrics."""
    columns = cached_columns(metrics)
    if columns is None:
        return
    columns.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with LineFile(metrics) as file:
        writer = ColumnWriter(columns, file.fd)
        while True:
            lines, end = file.complete_lines(writer.last, BLOCK)
            if end == writer.last:
                break
            writer.add(lines, end)
        writer.close()
    forget_oldest(columns.parent.parent, keep=columns.parent)


def forget_oldest(base: Path, keep: Path, most: int = LARGEST_CACHE) -> None:
    """Remove the columns that were written longest ago, until the cache is small enough."""
    folders = [(*_age_and_size(path), path) for path in base.iterdir()]
    total = sum(size for _, size, _ in folders)
    for _, size, path in sorted(folders):
        if total <= most:
            return
        if path != keep:
            shutil.rmtree(path, ignore_errors=True)
            total -= size


def _age_and_size(folder: Path) -> tuple[float, int]:
    with suppress(OSError):
        facts = [entry.stat() for entry in os.scandir(folder)]
        return max((fact.st_mtime for fact in facts), default=0.0), sum(fact.st_size for fact in facts)
    return 0.0, 0


def main() -> None:
    """Build; a training run beside it comes first."""
    if hasattr(os, "nice"):
        os.nice(NICE)
    for metrics in map(Path, sys.argv[1:]):
        with suppress(FileNotFoundError):  # the run was deleted in the meantime
            build(metrics)


if __name__ == "__main__":
    main()
