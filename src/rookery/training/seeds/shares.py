"""How many runs are trained at a time, and how many cores each one uses."""

from __future__ import annotations

from dataclasses import dataclass

from rookery.config import RunConfig
from rookery.config.run_size import LEARNING_PROCESS
from rookery.console import size_text
from rookery.errors import MemoryShortage, OptionError

CORES_OF_PROCESSES = 4  # a run with worker processes uses several cores by itself
MEMORY_OF_A_RUN = 1 << 30  # bytes: torch, a small net and its batches


@dataclass(frozen=True)
class Shares:
    """How many runs are trained side by side, and the cores that each one gets."""

    jobs: int
    cores: int


def divide(config: RunConfig, runs: int, cores: int, memory: int, jobs: int | None = None) -> Shares:
    """Divide the machine among runs.

    A run on a GPU gets all of it. A run in worker processes gets at least four cores. Any other run learns on one core
    for most of the time, so there is one run per core.

    Args:
        config: The resolved configuration of the runs.
        memory: Free bytes.
        jobs: The number that the user wants instead.
    """
    if jobs is not None and jobs < 1:
        raise OptionError(f"--jobs should be an integer >= 1, got {jobs}")
    if jobs is None:
        if config.device not in ("auto", "cpu"):
            jobs = 1
        else:
            jobs = cores // CORES_OF_PROCESSES if config.backend == "process" else cores
        jobs = min(jobs, memory // MEMORY_OF_A_RUN)
    elif (needed := min(jobs, runs) * LEARNING_PROCESS) > memory:
        raise MemoryShortage(
            f"{min(jobs, runs):,} runs at a time need at least {size_text(needed)} of memory, and "
            f"{size_text(memory)} are free: {max(1, memory // LEARNING_PROCESS):,} would fit"
        )
    jobs = max(1, min(jobs, runs))
    return Shares(jobs, max(1, cores // jobs))
