"""The dashboard in a process of its own, beside a run: `rookery train ... --dashboard`."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rookery.console import printable
from rookery.errors import UsageError
from rookery.training.commands import start_command
from rookery.web.dashboard_server import PORT

ASK_SECONDS = 2.0  # for an answer of what has the port
STOP_SECONDS = 10.0
MOST_ANSWER = 1 << 16  # bytes


class DashboardProcess:
    """Within `with`, a dashboard shows a folder of runs, at `url()`. One that runs already at the usual port and shows
    this folder is used, and left as it is. Otherwise one is started, at the usual port or, if something else has that,
    at any free one. It ends with the block, and if this process is killed."""

    def __init__(self, folder: str | Path, port: int = PORT) -> None:
        """Begin to start it; `url` waits for it."""
        self._folder, self._port = os.path.abspath(folder), port
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe that nobody reads would fill
        self._url = running_dashboard(port, self._folder)
        self._process = None if self._url else self._start(port)

    def url(self) -> str:
        """Where it is reached."""
        if self._url is None and not self._read_url():
            self._process = self._start(0)  # the port is taken
            self._read_url()
        if self._url is None:
            raise UsageError(f"the dashboard has not started: {self._error()}")
        return self._url

    @property
    def is_own(self) -> bool:
        """Whether it ends with the block."""
        return self._process is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._errors.close()
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        words = ("dashboard", "--runs-dir", self._folder, "--port", str(port), "--json")
        return start_command(*words, stdout=subprocess.PIPE, stderr=self._errors)

    def _read_url(self) -> bool:
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:  # it has ended
            self._process.stdout.close()
            self._process.wait()
            return False
        self._url = json.loads(line)["url"]
        return True

    def _error(self) -> str:
        """The last line that it has printed."""
        self._errors.seek(0)
        lines = self._errors.read(MOST_ANSWER).decode(errors="replace").strip().splitlines()
        return printable(lines[-1].removeprefix("rookery: ")) if lines else "it has ended without a message"


def running_dashboard(port: int, *folders: str | Path) -> str | None:
    """The address of the dashboard at a port of this machine, if it shows all of these folders. No token is sent: what
    has the port may be anything."""
    paths = _shown_paths(port)
    wanted = {os.path.abspath(folder) for folder in folders}
    return f"http://127.0.0.1:{port}" if wanted <= set(paths) else None


def _shown_paths(port: int) -> list[str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=ASK_SECONDS)
    try:
        connection.request("GET", "/api/health")
        answer = connection.getresponse()
        found: Any = json.loads(answer.read(MOST_ANSWER)) if answer.status == 200 else None
    except (OSError, HTTPException, ValueError, RecursionError):
        return []
    finally:
        connection.close()
    paths = found.get("paths") if isinstance(found, dict) else None
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []
