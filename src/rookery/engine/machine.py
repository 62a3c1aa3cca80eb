"""Cores and memory: what this process may use, under affinity masks and cgroup limits, and what a process uses."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil

_CGROUP = Path("/sys/fs/cgroup")
PROCESSES_PER_CORE, FEWEST_PROCESSES = 64, 256  # steps that wait for a device or a network keep no core busy
CAN_PIN = hasattr(psutil.Process, "cpu_affinity")  # not on macOS
# Lets another process that waits for this core run first. Windows knows it as a sleep of no length.
yield_core: Callable[[], Any] = getattr(os, "sched_yield", None) or partial(time.sleep, 0)


def allowed_cores() -> list[int]:
    """The cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return sorted(psutil.Process().cpu_affinity()) if CAN_PIN else list(range(os.cpu_count() or 1))


def set_affinity(cores: Sequence[int]) -> None:
    """Run this process on these cores only."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    else:
        psutil.Process().cpu_affinity(list(cores))


def cpu_quota(root: Path = _CGROUP) -> float | None:
    """How many cores' worth of time the cgroup grants, if it limits it (versions 2 and 1)."""
    quota, period = None, None
    for folder in _own_cgroups(root):
        words = _words(folder / "cpu.max")
        if len(words) == 2 and words[0] != "max":
            quota, period = int(words[0]), int(words[1])
            break
    if quota is None:
        for folder in _own_cgroups(root / "cpu", "cpu"):  # version 1
            limit, length = _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us")
            if limit and length and int(limit[0]) > 0:
                quota, period = int(limit[0]), int(length[0])
                break
    return None if not quota or not period else quota / period


def usable_cores() -> int:
    """How many workers can really run at the same time."""
    cores, quota = len(allowed_cores()), cpu_quota()
    return cores if quota is None else max(1, min(cores, math.floor(quota + 0.5)))


def available_memory(root: Path = _CGROUP) -> int:
    """Bytes that can still be taken: what the machine has free, or what the cgroup leaves if that is less."""
    free = psutil.virtual_memory().available
    for folder in _own_cgroups(root):
        limit, used = _words(folder / "memory.max"), _words(folder / "memory.current")
        if limit and used and limit[0] != "max":
            free = min(free, int(limit[0]) - int(used[0]))
    for folder in _own_cgroups(root / "memory", "memory"):  # version 1
        limit, used = _words(folder / "memory.limit_in_bytes"), _words(folder / "memory.usage_in_bytes")
        if limit and used:
            free = min(free, int(limit[0]) - int(used[0]))
    return max(0, free)


def most_processes(root: Path = _CGROUP) -> int:
    """How many more processes or threads this process may start: by its limits, and by what the cores can run."""
    most = max(FEWEST_PROCESSES, PROCESSES_PER_CORE * usable_cores())
    for folder in (*_own_cgroups(root), *_own_cgroups(root / "pids", "pids")):  # versions 2 and 1
        limit, used = _words(folder / "pids.max"), _words(folder / "pids.current")
        if limit and used and limit[0] != "max":
            most = min(most, int(limit[0]) - int(used[0]))
    return max(1, min(most, _process_limit()))


def _process_limit() -> int:
    """The processes that this user may have (`ulimit -u`), those that run already included."""
    limit = psutil.RLIM_INFINITY if hasattr(psutil, "RLIMIT_NPROC") else None
    if limit is None or os.geteuid() == 0:  # the superuser has no limit
        return sys.maxsize
    allowed = psutil.Process().rlimit(psutil.RLIMIT_NPROC)[0]
    return sys.maxsize if allowed == limit else allowed


def oom_kills() -> int:
    """How many processes the kernel has killed for memory, on this machine, since it started."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def process_usage(pid: int) -> dict[str, Any]:
    """CPU seconds used so far and resident memory in bytes; zeros for a process that is gone."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return {"pid": pid, "cpu_seconds": times.user + times.system, "memory": process.memory_info().rss}
    except psutil.NoSuchProcess:
        return {"pid": pid, "cpu_seconds": 0.0, "memory": 0}


def _own_cgroups(root: Path, controller: str = "") -> list[Path]:
    """This process's cgroup and its ancestors, nearest first: any of them may set a limit. Version 1 has a hierarchy
    for each controller, version 2 one without a name."""
    own = "/"
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if controller in names.split(","):
                own = path
    except OSError:
        pass
    folder = root / own.lstrip("/")
    folders = [folder, *folder.parents] if folder.is_relative_to(root) else [root]
    return [f for f in folders if f.is_relative_to(root)]


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
