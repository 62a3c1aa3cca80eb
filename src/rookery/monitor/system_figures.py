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
from typing import Any

from rookery.engine.machine import available_memory, process_usage, usable_cores
from rookery.monitor.gpu_figures import GpuReader
from rookery.monitor.memory_growth import MemoryGrowth

SHORTEST_SECONDS = 2.0  # between two samples
MOST_COST = 1 / 400  # of the time that samples may take

Usage = Mapping[str, Any]  # of a process: pid, cpu_seconds, memory


class SystemFigures:
    """Samples are taken by the clock, when `due` is asked between two rollouts; no thread is involved."""

    def __init__(
        self,
        gpu: GpuReader | None = None,
        expected_memory: float = 0.0,
        notes: Sequence[str] = (),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`expected_memory` bytes of the main process will be filled during the run, and are no leak. `notes` are for
        the user, with those that are found later."""
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

    def close(self) -> None:
        if self._gpu is not None:
            self._gpu.close()

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
