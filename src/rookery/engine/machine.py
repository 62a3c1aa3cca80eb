"""Cores and memory: what this process may use, under affinity masks and cgroup limits, what a process uses, and whether
other programs want the cores.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil

_CGROUP = Path("/sys/fs/cgroup")
PROCESSES_PER_CORE, FEWEST_PROCESSES = 64, 256  # steps that wait for a device or a network keep no core busy
BUSY = 0.15  # of all cores: from here on, what other programs do is worth a word
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
    limits = [_words(folder / "cpu.max") for folder in _own_cgroups(root)]
    for folder in _own_cgroups(root / "cpu", "cpu"):  # version 1
        limits.append(_words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us"))
    for quota, period in (words for words in limits if len(words) == 2):
        if quota != "max" and int(quota) > 0 and int(period) > 0:
            return int(quota) / int(period)
    return None


def busy_cores(seconds: float = 0.2) -> float:
    """Number of cores that other programs use at the moment; it takes so many seconds to see."""
    return psutil.cpu_percent(seconds) / 100 * (psutil.cpu_count() or 1)


def stolen_seconds() -> float:
    """Time in which the machine under this virtual one gave this one's cores to others, since the start."""
    return getattr(psutil.cpu_times(), "steal", 0.0)  # on Linux


def usable_cores() -> int:
    """How many workers can really run at the same time."""
    cores, quota = len(allowed_cores()), cpu_quota()
    return cores if quota is None else max(1, min(cores, math.floor(quota + 0.5)))


def available_memory(root: Path = _CGROUP) -> int:
    """Bytes that can still be taken: what the machine has free, or what the cgroup leaves if that is less."""
    left = [
        *_left(_own_cgroups(root), "memory.max", "memory.current"),
        *_left(_own_cgroups(root / "memory", "memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),  # version 1
    ]
    return max(0, min([psutil.virtual_memory().available, *left]))


def most_processes(root: Path = _CGROUP) -> int:
    """How many more processes or threads this process may start: by its limits, and by what the cores can run."""
    most = max(FEWEST_PROCESSES, PROCESSES_PER_CORE * usable_cores())
    folders = [*_own_cgroups(root), *_own_cgroups(root / "pids", "pids")]  # versions 2 and 1
    return max(1, min([most, _process_limit(), *_left(folders, "pids.max", "pids.current")]))


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


def _left(folders: list[Path], limit: str, used: str) -> Iterator[int]:
    """What each cgroup with a limit leaves, by the names of two of its files."""
    for folder in folders:
        most, now = _words(folder / limit), _words(folder / used)
        if most and now and most[0] != "max":
            yield int(most[0]) - int(now[0])


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


# --- whether other programs use the cores -----------------------------------------------------------------------------

SLICE_SECONDS = 1e-3  # a wait longer than usual by this much is a time slice of another program
DELAYED_SHARE = 0.25  # the cores are crowded if more than this share of recent rounds was delayed
MEMORY = 1 / 32  # weight of one round in the moving average
FIRST_RETREAT_SECONDS = 2.0
LONGEST_RETREAT_SECONDS = 60.0


class Contention:
    """Measures how long rounds take. `crowded` says whether to stop pinning and polling for now.

    Pinned workers and a polling parent are fastest on an idle machine and slowest beside another busy program: each
    turn on a shared core then costs a time slice of about 3 ms (CartPole, 8 envs, beside one busy loop: 3 k steps/s
    pinned and polling, 28 k without). Results do not depend on any of this.
    """

    def __init__(self) -> None:
        self.crowded = False
        self._usual, self._share = 1.0, 0.0
        self._until, self._retreat = 0.0, FIRST_RETREAT_SECONDS

    def changed(self, wait: float, now: float) -> bool:
        """Add one round's wait; returns whether `crowded` has changed."""
        if self.crowded:
            if now < self._until:
                return False
            self.crowded, self._share = False, 0.0
            return True
        self._usual = usual = min(self._usual * 1.02, wait)  # the shortest recent one
        if wait <= SLICE_SECONDS + 5 * usual:
            self._share -= MEMORY * self._share
            return False
        self._share += MEMORY * (1 - self._share)  # delayed
        if self._share < DELAYED_SHARE:
            return False
        # The pause doubles each time; it starts over after a long quiet time.
        calm = now - self._until > 10 * self._retreat
        self._retreat = FIRST_RETREAT_SECONDS if calm else min(2 * self._retreat, LONGEST_RETREAT_SECONDS)
        self.crowded, self._until = True, now + self._retreat
        return True
