"""Ends a process with everything that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import Any

import psutil


def kill_group(process: subprocess.Popen[Any]) -> None:
    """Kill a process that leads a group of its own, and all of the group. Windows has no groups to kill: there its
    descendants are killed one by one."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        return
    with suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
    process.kill()
