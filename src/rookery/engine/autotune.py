"""Chooses the backend and the number of envs and workers, from the cost of a step, the cores and the memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rookery.console import size_text
from rookery.engine.machine import available_memory, usable_cores
from rookery.engine.probe import Probe
from rookery.engine.worker_envs import EnvDescription

# Measured on 2 cores with CartPole: what the engine adds to a step, and to a round of all workers.
ENV_OVERHEAD = 1.5e-6
SERIAL_ROUND = 8e-6
PROCESS_ROUND = 30e-6
POLICY_ROUND = 200e-6  # what a small torch policy adds to each round of a run, however few envs it acts for
MARGIN = 1.1  # expected speed-up from which on worker processes are used, as measurements are noisy
TARGET_ROUND = (
    400e-6  # seconds that a worker should step per round: long enough that starting and ending a round costs little
)
MAX_ENVS_PER_WORKER = 32
MEASURABLE = 4096  # bytes: memory is measured in pages
MEMORY_SHARE = 0.5  # of the free memory; the rest is for the learner


@dataclass(frozen=True)
class Choice:
    """What to use, and why in one line."""

    backend: str
    num_envs: int
    workers: int
    reason: str
    probe: Probe | None = None  # of the env that was measured, if one was
    useful_envs: int | None = None  # as many envs as this machine can use well, whatever `at_most` says

    @property
    def description(self) -> EnvDescription | None:
        """About the env that was measured."""
        return None if self.probe is None else self.probe.description


def choose(
    probe: Probe,
    num_envs: int | None = None,
    workers: int | None = None,
    backend: str = "auto",
    cores: int | None = None,
    memory: int | None = None,
    at_least: int = 1,
    at_most: int | None = None,
    policy_seconds: float = 0.0,
) -> Choice:
    """Choose what the caller omitted; if that includes `num_envs`, between `at_least` and `at_most` envs.
    `policy_seconds` is what the caller does between two steps, which counts where it exceeds the steps themselves."""
    cores = usable_cores() if cores is None else cores
    memory = available_memory() if memory is None else memory
    chosen = workers or useful_workers(probe, cores)
    useful = _useful_envs(probe, chosen, memory)
    count = num_envs or max(min(useful, at_most or useful), workers or 1, at_least)
    chosen = workers or max(1, min(chosen, count, _affordable(probe, memory)))
    serial = serial_rate(probe, count, policy_seconds)
    process = process_rate(probe, count, chosen, cores, policy_seconds)
    cost = f"a step takes {_time_text(probe.step_seconds)}"
    if backend == "auto":
        backend = "process" if process > MARGIN * serial and chosen > 0 else "serial"
    if backend == "serial":
        chosen = 1
        why = f"{cost}, too short for several workers" if process <= MARGIN * serial else cost
    else:
        why = cost + ("" if probe.cpu_share > 0.5 else f", {1 - probe.cpu_share:.0%} of it waiting")
    expected = serial if backend == "serial" else process
    memory_text = f", {size_text(probe.memory)} per env" if probe.memory >= MEASURABLE else ""
    reason = (
        f"backend={backend!r}, num_envs={count}, workers={chosen}: {why}; {cores} cores{memory_text}; "
        f"about {expected:,.0f} steps/s"
    )
    return Choice(backend, count, chosen, reason, probe, useful)


def useful_workers(probe: Probe, cores: int) -> int:
    """One per core; more where steps wait, because a waiting worker leaves its core to another."""
    busy = max(probe.cpu_share, 0.05)
    return max(1, math.ceil(cores / busy)) if busy < 0.7 else cores


def serial_rate(probe: Probe, num_envs: int, policy_seconds: float = 0.0) -> float:
    """Expected steps per second of the serial loop."""
    return num_envs / (num_envs * (probe.step_seconds + ENV_OVERHEAD) + SERIAL_ROUND + policy_seconds)


def process_rate(probe: Probe, num_envs: int, workers: int, cores: int, policy_seconds: float = 0.0) -> float:
    """Expected steps per second of worker processes: limited by the longest share, by the cores' time, and by a policy
    that acts for each half of the envs while the other half steps."""
    share = math.ceil(num_envs / workers) * (probe.step_seconds + ENV_OVERHEAD)
    policy = 2 * policy_seconds
    on_cpu = (num_envs * (probe.step_seconds * probe.cpu_share + ENV_OVERHEAD) + policy) / cores
    return num_envs / (max(share, on_cpu, policy) + PROCESS_ROUND)


def _useful_envs(probe: Probe, workers: int, memory: int) -> int:
    """Enough envs per worker to make a round long enough, at least two so that groups can overlap. A power of two, as
    two measurements of one env differ by some percent, and should give one number of envs."""
    per_worker = 2 ** round(math.log2(max(2.0, TARGET_ROUND / (probe.step_seconds + ENV_OVERHEAD))))
    count = workers * min(per_worker, MAX_ENVS_PER_WORKER)
    if probe.memory > 0:
        count = min(count, int(MEMORY_SHARE * memory / probe.memory))
    return max(1, count)


def _affordable(probe: Probe, memory: int) -> int:
    return max(1, int(MEMORY_SHARE * memory / max(1, probe.process_memory)))


def _time_text(seconds: float) -> str:
    return (
        f"{seconds * 1e6:.0f} us"
        if seconds < 1e-3
        else f"{seconds * 1e3:.1f} ms"
        if seconds < 1
        else f"{seconds:.1f} s"
    )
