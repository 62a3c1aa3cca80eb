"""What ends a trial early: limits of time, memory and GPU memory, of which a worker keeps what it can, while the
supervisor kills one that does not; and the signals that stop a worker."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from types import FrameType

import psutil

from rookery.config import RunConfig
from rookery.config.sections import SearchOptions
from rookery.console import size_text
from rookery.files import read_plain, replace_file
from rookery.monitor.formatting import duration
from rookery.studies.trials.plans import trial_name

GRACE_SECONDS = 60.0  # to save a checkpoint and end, beyond the time of a trial
LARGEST = 1 << 16  # bytes of a verdict
ASKED = "asked to stop"


def memory_of(pid: int) -> int:
    """Resident memory of a process and of all that it has started, in bytes; 0 if it has ended."""
    total = 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in [process, *process.children(recursive=True)]:
            with suppress(psutil.Error):
                total += one.memory_info().rss
    return total


def limit_gpu_memory(config: RunConfig) -> None:
    """Have torch refuse this process more GPU memory than a trial may take: the trial fails then, as without any."""
    limit = config.search.trial_gpu_memory
    if limit is None or config.device == "cpu":
        return
    import torch

    if torch.cuda.is_available():
        index = int(config.device.partition(":")[2] or 0)
        total = torch.cuda.get_device_properties(index).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), index)


def too_long(search: SearchOptions) -> str:
    """The reason of a trial that took too long."""
    return f"took longer than search.trial_timeout = {duration(search.trial_timeout)}"


def too_large(search: SearchOptions, memory: int) -> str:
    """The reason of a trial that took too much memory."""
    return f"took {size_text(memory)} of memory, more than search.trial_memory = {size_text(search.trial_memory or 0)}"


class Verdicts:
    """Trials that the supervisor has given up while it killed their worker, with the reason of each. The next worker
    that claims such a trial records it as failed. These are files: the supervisor may be killed in between."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def give(self, number: int, reason: str) -> None:
        replace_file(self._file(number), [json.dumps({"trial": number, "reason": reason}).encode()])

    def take(self, number: int) -> str | None:
        """The reason to fail the trial; None if there is none."""
        file = self._file(number)
        try:
            return str(json.loads(read_plain(file, LARGEST))["reason"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def forget(self, number: int) -> None:
        self._file(number).unlink(missing_ok=True)

    def _file(self, number: int) -> Path:
        return self._folder / f"{trial_name(number)}.failed.json"


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
        """Stop, from any thread: the first request counts, except that a general stop counts more."""
        if not self.reason or reason == ASKED:
            self.reason = reason
        os.kill(os.getpid(), signal.SIGTERM)

    def noticed(self) -> None:
        """A run has ended as interrupted: its handler has taken the signal."""
        self.reason = self.reason or ASKED

    def clear(self, reason: str) -> None:
        """Continue, if this was the reason."""
        if self.reason == reason:
            self.reason = ""

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.noticed()
