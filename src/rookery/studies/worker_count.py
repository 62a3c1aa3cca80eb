"""How many workers a search has, corrected while they train: by how busy they keep the cores, and by the memory that is
left. What was found is remembered for the machine and the world."""

from __future__ import annotations

import time

import psutil

from rookery.config import RunConfig
from rookery.console import say, size_text
from rookery.engine.cost_memory import Measurements, key_of
from rookery.engine.machine import allowed_cores, available_memory, usable_cores
from rookery.training.seeds.processes import MEMORY_OF_A_RUN

LOOK_SECONDS = 10.0  # between two looks, over which it is measured how busy the cores are
WHOLE, ENOUGH = 2, 4  # looks in a row at which all train: the first one may have seen them start; the last one decides
IDLE = 1.0  # cores with nothing to do, for more workers to be tried
WORTH = 0.5  # of what a worker used before: more of them that use less wait for something else
MOST = 32  # trials at once: the sampler learns from those that have ended
SCARCE = 512 << 20  # bytes of memory that are left: one worker ends before the system kills one
KNOWN = Measurements("search_workers.json")


def _key(base: RunConfig) -> str | None:
    return key_of(base.world, base.learner, base.backend, base.num_envs, base.device, usable_cores())


def known_count(base: RunConfig) -> int | None:
    """How many workers an earlier search of this world came to; None if it came to no other number."""
    count = KNOWN.recall(_key(base))
    return min(count, MOST) if type(count) is int and count >= 1 else None


def busy_cores() -> float:
    """How many of the cores that this process may use were busy since this was called last."""
    percents = psutil.cpu_percent(percpu=True)
    return sum(percents[core] for core in allowed_cores() if core < len(percents)) / 100


class WorkerCount:
    """Says how many workers there should be."""

    def __init__(self, base: RunConfig, count: int) -> None:
        self.count, self._base = count, base
        self._before: tuple[int, float] | None = None  # the number before the last change, and its busy cores
        self._steady = 0  # looks since the last change at which all trained
        is_visible = not base.device.startswith("cuda") and usable_cores() == len(allowed_cores())
        self._settled = not is_visible or known_count(base) is not None
        self._due = time.monotonic() + LOOK_SECONDS
        busy_cores()

    def look(self, all_train: bool) -> int:
        """The number from now on. Only where `all_train` can be seen what they use."""
        if time.monotonic() < self._due:
            return self.count
        self._due = time.monotonic() + LOOK_SECONDS
        busy, left = busy_cores(), available_memory()
        self._steady = self._steady + 1 if all_train else 0
        if left < SCARCE and self.count > 1:
            self._settled = True
            self._change(self.count - 1, f"{size_text(left)} of memory are left")
        elif self._steady >= WHOLE and not self._settled:
            self._compare(busy, left)
            if self._settled:
                KNOWN.remember(_key(self._base), self.count)
        return self.count

    def _compare(self, busy: float, left: int) -> None:
        """More workers while cores are idle and the last ones used them; else as many as before."""
        if self._before is not None:
            (count, used), self._before = self._before, None
            if busy - used < WORTH * used * (self.count / count - 1):
                self._settled = True
                self._change(count, f"{self.count} keep {busy:.1f} cores busy, and {count} kept {used:.1f}")
                return
        cores, fitting = usable_cores(), left // (2 * MEMORY_OF_A_RUN)
        wanted = min(MOST, self.count + min(self.count, fitting, int((cores - busy) * self.count / max(busy, 0.1))))
        if cores - busy < IDLE or wanted <= self.count:
            self._settled = self._steady >= ENOUGH
            return
        self._before = self.count, busy
        self._change(wanted, f"{self.count} keep {busy:.1f} of {cores} cores busy")

    def _change(self, count: int, why: str) -> None:
        say(f"{count} workers from now on: {why}; --jobs sets another number")
        self.count, self._steady = count, 0
