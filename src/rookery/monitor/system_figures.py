"""What a run takes of the machine: CPU, memory and GPU, as metrics named `system/...`.

system/cpu               share of the usable cores, of the main process and its workers, from 0 to 1
system/memory            bytes of resident memory, of the same; pages that processes share count in each of them
system/memory_main, system/memory_worker_K
system/gpu               share of the time in which the GPU was busy, from 0 to 1
system/gpu_memory, system/gpu_memory_total
system/gpu_power         watts
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

from rookery.engine.machine import available_memory, process_usage, usable_cores
from rookery.monitor.formatting import duration, size

SHORTEST_SECONDS = 2.0  # between two samples
MOST_COST = 1 / 400  # of the time that samples may take

POINTS = 16  # that are kept; when there are so many, pairs of them become one
WINDOW = 8  # of the latest points that must all grow
FIRST_SPAN = 30.0  # seconds of a point, doubled with each halving
SHARE, BYTES = 0.2, 200e6  # growth over the window that counts: more than this share, and more than this size
STEADY = 0.6  # the second half of the window must grow at least at this share of the first half's speed

UNKNOWN = 1 << 31  # NVML has the largest number of its type for what it does not know; no percentage or mW is so large
MISSING = "the load and power of the GPU are shown with nvidia-ml-py: pip install 'rookery[gpu]'"

Usage = Mapping[str, Any]  # of a process: pid, cpu_seconds, memory


class SystemFigures:
    """Samples are taken by the clock, when `due` is called between two rollouts; no thread is involved."""

    def __init__(
        self,
        gpu: GpuFigures | None = None,
        expected_memory: float = 0.0,
        notes: Sequence[str] = (),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`expected_memory` bytes of the main process will be filled during the run, which is not a leak. `notes` are
        for the user, with those that are found later."""
        self._gpu, self._clock = gpu, clock
        self._cores = usable_cores()
        self._cpu_seconds: dict[int, float] = {}
        self._sampled_at, self._interval = clock(), 0.0
        self._started = self._sampled_at
        self._envs: tuple[int, ...] = (0, 0)  # the number of worker processes, and of envs
        self._growth = MemoryGrowth("main process", expected_memory), MemoryGrowth("workers")
        self._notes = list(notes)

    @property
    def due(self) -> bool:
        return self._clock() - self._sampled_at >= self._interval

    def sample(self, workers: Sequence[Usage]) -> dict[str, float]:
        """The figures now. `workers` is what an engine's `stats()` returns; workers in this process are not counted
        twice. The share of the CPU is missing in the first sample."""
        began = self._clock()
        main = process_usage(os.getpid())
        others = {k: usage for k, usage in enumerate(workers) if usage["pid"] != main["pid"]}
        figures = self._cpu([main, *others.values()], began - self._sampled_at)
        theirs = sum(usage["memory"] for usage in others.values())
        figures |= {"system/memory": main["memory"] + theirs}
        if others:
            figures["system/memory_main"] = main["memory"]
            figures |= {f"system/memory_worker_{k}": usage["memory"] for k, usage in others.items()}
        self._restart_if_changed(len(others), sum(usage.get("envs", 0) for usage in workers))
        self._watch_memory(began, main["memory"], theirs)
        if self._gpu is not None:
            figures |= self._gpu.read()
        self._sampled_at = began
        self._interval = max(SHORTEST_SECONDS, (self._clock() - began) / MOST_COST)
        return figures

    def take_notes(self) -> list[str]:
        """What was found since the last call: memory that grows."""
        notes, self._notes = self._notes, []
        return notes

    def _cpu(self, processes: list[Usage], seconds: float) -> dict[str, float]:
        """Seconds of each process since the last sample. One that has started since counts from its beginning."""
        before, self._cpu_seconds = self._cpu_seconds, {usage["pid"]: usage["cpu_seconds"] for usage in processes}
        if not before or seconds <= 0:
            return {}
        used = sum(max(0.0, now - before.get(pid, 0.0)) for pid, now in self._cpu_seconds.items())
        return {"system/cpu": min(1.0, used / (seconds * self._cores))}

    def _restart_if_changed(self, *envs: int) -> None:
        """More envs take more memory."""
        if envs != self._envs:
            self._envs = envs
            for growth in self._growth:
                growth.restart()

    def _watch_memory(self, now: float, main: float, theirs: float) -> None:
        free = available_memory()
        for growth, used in zip(self._growth, (main, theirs), strict=True):
            if sentence := growth.add(now - self._started, used, free):
                self._notes.append(sentence)


class MemoryGrowth:
    """Finds memory of some processes that grows steadily, which would end a long run.

    A point is the least memory in a span of time, so that what is soon freed again does not count. The points reach
    back over at least half of the run: a slow leak is found as well as a fast one, only later.
    """

    def __init__(self, whose: str, expected: float = 0.0) -> None:
        """`whose` memory it is, for the message. `expected` bytes may be added without being a leak, such as those of a
        replay buffer that fills."""
        self._whose, self._expected = whose, expected
        self._found = False
        self.restart()

    def restart(self) -> None:
        """Start over: there is a reason for another amount of memory."""
        self._points: list[tuple[float, float]] = []
        self._span = FIRST_SPAN
        self._open: tuple[float, float] | None = None  # the point that is not complete: its start, its minimum

    def add(self, seconds: float, used: float, free: float) -> str:
        """The memory in bytes at a time; returns a sentence once, when it is found to grow steadily, else ""."""
        if self._open is None:
            self._open = seconds, used
        elif seconds - self._open[0] < self._span:
            self._open = self._open[0], min(self._open[1], used)
        else:
            self._points.append(self._open)
            self._open = seconds, used
            return self._sentence(free)
        return ""

    def _sentence(self, free: float) -> str:
        window = self._points[-WINDOW:]
        grows = not self._found and len(window) == WINDOW and self._is_growth([used for _, used in window])
        if len(self._points) == POINTS:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [(start, min(used, later)) for (start, used), (_, later) in pairs]
            self._span *= 2
        if not grows:
            return ""
        self._found = True
        (first_at, first), (last_at, last) = window[0], window[-1]
        left = (last_at - first_at) * free / (last - first)
        return (
            f"the memory of the {self._whose} grows steadily, from {size(first)} to {size(last)} in "
            f"{duration(last_at - first_at)}: the {size(free)} that are free would last {duration(left)} more"
        )

    def _is_growth(self, used: list[float]) -> bool:
        growth, half = used[-1] - used[0], WINDOW // 2
        early, late = (used[half] - used[0]) / half, (used[-1] - used[half]) / (WINDOW - 1 - half)
        rises = all(before < after for before, after in pairwise(used))
        enough = growth > max(SHARE * used[0], BYTES) + self._expected
        return rises and enough and late >= STEADY * early


class GpuFigures:
    """Load, memory and power of the GPU that a run uses, as torch knows them: the first and the last need `pynvml` for
    NVIDIA's, and for AMD's `amdsmi`, which comes with ROCm.

    What a GPU does not report is omitted: a part of one (MIG) has no load, and many laptops no power. A GPU that fails
    leaves no figures, and must not end a run.
    """

    def __init__(self, cuda: Any, device: Any, rocm: bool = False) -> None:
        """`cuda` is `torch.cuda`, which is not imported here; `device` one of its devices."""
        self._cuda, self._device = cuda, device
        self._watts = 1 if rocm else 0.001  # of the number that torch has for the power

    def problem(self) -> str:
        """Why there will be no load; "" if there is one."""
        try:
            self._cuda.utilization(self._device)
        except ModuleNotFoundError as error:
            return str(error) if self._watts == 1 else MISSING
        except Exception as error:  # noqa: BLE001 - no driver, another version of it, a container without rights
            return f"the GPU's load is not known: {error}"
        return ""

    def read(self) -> dict[str, float]:
        """`system/gpu`, `system/gpu_memory`, `system/gpu_memory_total` and `system/gpu_power`, as far as known."""
        cuda, figures = self._cuda, dict[str, float]()
        with suppress(Exception):
            figures |= _known("system/gpu", cuda.utilization(self._device), 0.01)
        with suppress(Exception):
            free, total = cuda.mem_get_info(self._device)
            figures |= {"system/gpu_memory": total - free, "system/gpu_memory_total": total}
        with suppress(Exception):
            figures |= _known("system/gpu_power", cuda.power_draw(self._device), self._watts)
        return figures


def _known(name: str, value: Any, unit: float) -> dict[str, float]:
    """The value in other units; {} if the library has no number."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < UNKNOWN
    return {name: value * unit} if known else {}
