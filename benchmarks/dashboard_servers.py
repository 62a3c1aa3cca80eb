"""Servers to measure, each in a process of its own: the dashboard, and how others are queried."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson
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
            return orjson.loads(answer.read())  # about as fast as a browser does

    @property
    def megabytes(self) -> float:
        """Resident memory of the server and its children."""
        processes = [self.process, *self.process.children(recursive=True)]
        return sum(process.memory_info().rss for process in processes) / 1e6

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the server and its children until now."""
        processes = [self.process, *self.process.children(recursive=True)]
        spent = [process.cpu_times() for process in processes]
        ended = spent[0].children_user + spent[0].children_system
        return ended + sum(times.user + times.system for times in spent)


@cache
def _bytecode() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="bytecode-")


def environment(**more: str) -> dict[str, str]:
    """The environment of a server. Python keeps the bytecode of its modules, as it does where pip has installed them:
    where it may not write any, half of the time of a start is that of the compiler."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": _bytecode().name, **more}


@contextmanager
def dashboard(folder: Path, cached: Path) -> Iterator[Served]:
    """A new dashboard of a folder; what it has found out about long runs is in `cached`."""
    command = [sys.executable, "-m", "rookery", "dashboard", "--json", "--port", "0", "--runs-dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(ROOKERY_CACHE=str(cached)))
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
