"""Stops a run as Ctrl-C does, and resumes one with the command `rookery resume`, as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from rookery.errors import RunError
from rookery.files import open_to_append, read_plain
from rookery.training.commands import start_command

# The run goes on when the dashboard has ended, and when the terminal in which that was started is closed.
RESUME = (
    "import signal, sys; hasattr(signal, 'SIGHUP') and signal.signal(signal.SIGHUP, signal.SIG_IGN); sys.argv.pop(1); "
    "from rookery.cli.main import main; sys.exit(main())"
)
LOG = "resume.log"  # in the run's folder: what the command prints
START_SECONDS = 30.0  # until which an error of the command is reported
MOST_ERROR = 2000  # characters


def stop_run(path: Path) -> int:
    """Ask the process of a run to save and end, and return its pid."""
    process = _holder(path)
    if process is None:
        raise RunError(f"{path.name} does not run on this machine: there is nothing to stop")
    try:
        process.send_signal(signal.SIGTERM)  # unlike a second SIGINT, a second SIGTERM does no harm
    except psutil.Error:
        raise RunError(f"{path.name} cannot be stopped: its process {process.pid} is another user's, or gone") from None
    return process.pid


def resume_run(path: Path) -> int:
    """Start `rookery resume` and return its pid, when the run has begun or START_SECONDS have passed."""
    if _holder(path) is not None:
        raise RunError(f"{path.name} runs already")
    log = path / LOG
    descriptor = open_to_append(log)
    try:
        begin = os.fstat(descriptor).st_size
        process = start_command(
            "resume", str(path), "--runs-dir", str(path.parent), "--no-panel",
            code=RESUME, stdout=descriptor, stderr=descriptor,
        )  # fmt: skip
    finally:
        os.close(descriptor)
    threading.Thread(target=process.wait, name="rookery resume", daemon=True).start()  # no zombie is left
    _wait_for_start(path, process, begin)
    return process.pid


def _wait_for_start(path: Path, process: subprocess.Popen[bytes], begin: int) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.returncode not in (None, 0):
            with open(path / LOG, "rb") as file:
                file.seek(begin)
                text = file.read(1 << 16).decode(errors="replace").strip()[-MOST_ERROR:]
            raise RunError(f"{path.name} was not resumed: {text or f'exit status {process.returncode}'}")
        if process.returncode == 0 or _holder(path) is not None:
            return
        time.sleep(0.1)


def _holder(path: Path) -> psutil.Process | None:
    """The process on this machine that holds the run's lock. A file can name any process: this one has it open."""
    lock = path / "run.lock"
    about = _written(lock)
    if about.get("host") != socket.gethostname() or type(about.get("pid")) is not int:
        return None
    with suppress(psutil.Error, OSError, ValueError, OverflowError):
        process = psutil.Process(about["pid"])
        if any(os.path.samefile(file.path, lock) for file in process.open_files() if file.path.endswith("/run.lock")):
            return process
    return None


def _written(lock: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(read_plain(lock, 4096))
        return found if isinstance(found, dict) else {}
    return {}
