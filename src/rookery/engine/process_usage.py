"""What a process has used: CPU seconds and memory."""

from __future__ import annotations

from typing import Any

import psutil


def process_usage(pid: int) -> dict[str, Any]:
    """CPU seconds used so far and resident memory in bytes; zeros for a process that is gone."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return {"pid": pid, "cpu_seconds": times.user + times.system, "memory": process.memory_info().rss}
    except psutil.NoSuchProcess:
        return {"pid": pid, "cpu_seconds": 0.0, "memory": 0}
