"""Servers to measure, each in a process of its own: the dashboard, and how others are asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ASK_SECONDS = 600.0  # for the slowest answer
METRIC = "episode/return"


@dataclass
class Served:
    """A server at work: its address and its process."""

    url: str
    process: psutil.Process

    def get(self, path: str, **query: Any) -> Any:
        """The JSON at a path."""
        return self._json(f"{path}?{urllib.parse.urlencode(query)}")

    def post(self, path: str, **form: Any) -> Any:
        """The JSON that a form is answered with."""
        return self._json(path, urllib.parse.urlencode(form).encode())

    def _json(self, path: str, data: bytes | None = None) -> Any:
        with urllib.request.urlopen(self.url + path, data, timeout=ASK_SECONDS) as answer:
            return json.loads(answer.read())

    @property
    def megabytes(self) -> float:
        """Resident memory of the server and its children."""
        processes = [self.process, *self.process.children(recursive=True)]
        return sum(process.memory_info().rss for process in processes) / 1e6

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the server until now."""
        spent = self.process.cpu_times()
        return spent.user + spent.system + spent.children_user + spent.children_system


@contextmanager
def dashboard(folder: Path, cache: Path) -> Iterator[Served]:
    """A new dashboard of a folder; what it has found out about long runs is in `cache`."""
    command = [sys.executable, "-m", "rookery", "dashboard", "--json", "--port", "0", "--runs-dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "ROOKERY_CACHE": str(cache)})
    try:
        assert process.stdout is not None
        yield Served(json.loads(process.stdout.readline())["url"], psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait()


def timed(action: Callable[[], Any]) -> float:
    """Seconds of a call."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
