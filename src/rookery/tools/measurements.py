"""Steps per second of a running vector env, in short slices, with actions sampled before; and the machine and the
packages of a measurement."""

from __future__ import annotations

import platform
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import gymnasium as gym
import psutil
from gymnasium.vector.utils import batch_space
from rich.console import Console

from rookery.engine.autotune import has_masks, legal_batch
from rookery.engine.cost_memory import Probe, useful_workers
from rookery.engine.engine import Engine
from rookery.engine.env_factory import EnvFactory
from rookery.engine.machine import allowed_cores, usable_cores
from rookery.errors import OptionError

ACTION_ROUNDS = 256
SLICE_SECONDS = 0.4
SLICES = 4


@dataclass(frozen=True)
class Trial:
    """The result of one configuration."""

    backend: str
    num_envs: int
    workers: int
    steps_per_second: float
    memory: int  # bytes: of the worker processes, or of the envs if they are in this process


def sample_actions(space: gym.Space, num_envs: int, seed: int = 0) -> list[Any]:
    """Batches of random actions, the same for the same arguments."""
    batched = batch_space(space, num_envs)
    batched.seed(seed)
    return [batched.sample() for _ in range(ACTION_ROUNDS)]


class RandomStepper:
    """Steps a vector env with random actions that were sampled before; action masks are applied if its infos have them.
    `last` is the result of its `reset`; `space` is the action space of one env."""

    def __init__(self, step: Callable[[Any], Any], space: gym.Space, actions: list[Any], last: Any) -> None:
        self._step, self._space, self._actions, self._last = step, space, actions, last
        self._masked = has_masks(space, last)

    def rate(self, num_envs: int, seconds: float) -> float:
        """Step for about `seconds`; returns steps per second, counting every env."""
        step = self._legal_step if self._masked else self._step
        clock, actions, count = time.perf_counter, self._actions, 0
        start = now = clock()
        while now - start < seconds:
            step(actions[count % len(actions)])
            count += 1
            now = clock()
        return num_envs * count / (now - start)

    def _legal_step(self, actions: Any) -> None:
        self._last = self._step(legal_batch(self._space, actions, self._last))


def measure_trial(source: EnvFactory, probe: Probe, backend: str, num_envs: int, workers: int, seconds: float) -> Trial:
    """Build an engine, step it for `seconds`, close it. The rate is the median of several slices."""
    from rookery.engine.make_vec import make_vec

    envs = make_vec(source, num_envs, backend, workers)
    try:
        actions = sample_actions(envs.single_action_space, num_envs)
        stepping = RandomStepper(envs.step, envs.single_action_space, actions, envs.reset(seed=0))
        stepping.rate(num_envs, seconds / 10)
        rates = [stepping.rate(num_envs, seconds / SLICES) for _ in range(SLICES)]
        return Trial(envs.backend, num_envs, workers, statistics.median(rates), _memory(envs, probe))
    finally:
        envs.close()


def worker_counts(probe: Probe) -> list[int]:
    """Numbers of workers to try: powers of two up to the number of cores, and more if steps wait."""
    cores = usable_cores()
    most = max(cores, min(useful_workers(probe, cores), 16 * cores))
    doublings = [1]
    while doublings[-1] * 2 < most:
        doublings.append(doublings[-1] * 2)
    return sorted({*doublings, cores, most})


def positive_seconds(value: float) -> float:
    if not 0 < value < float("inf"):
        raise OptionError(f"seconds should be a positive number, got {value}")
    return value


def _memory(envs: Engine, probe: Probe) -> int:
    if envs.backend != "process":
        return envs.num_envs * probe.memory
    return sum(worker["memory"] for worker in envs.stats())


BUSY = 0.15  # of all cores


def package_version(name: str) -> str | None:
    """The installed version, without importing the package."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def versions(*names: str) -> dict[str, str | None]:
    return {name: package_version(name) for name in names}


def busy_cores(seconds: float = 0.2) -> float:
    """Number of cores that other programs use at the moment."""
    return psutil.cpu_percent(seconds) / 100 * (psutil.cpu_count() or 1)


def machine_facts(*packages: str) -> dict[str, Any]:
    """Facts about the machine for a report, as plain values; call it before measuring."""
    return {
        "cores": psutil.cpu_count() or len(allowed_cores()),
        "usable_cores": usable_cores(),
        "memory": psutil.virtual_memory().total,
        "busy_cores": round(busy_cores(), 2),
        "system": platform.platform(terse=True),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "versions": versions("rookery", "gymnasium", "numpy", *packages),
    }


def machine_line(facts: dict[str, Any]) -> str:
    """The same in one line."""
    known = ", ".join(f"{name} {version}" for name, version in facts["versions"].items() if version)
    cores = f"{facts['usable_cores']} of {facts['cores']} cores ({facts['architecture']})"
    return f"{cores}, Python {facts['python']}, {known}"


def busy_line(facts: dict[str, Any]) -> str | None:
    """A warning, if other programs were busy when the measurement began."""
    busy, cores = facts["busy_cores"], facts["cores"]
    if busy < BUSY * cores:
        return None
    return (
        f"Other programs used {busy:.1f} of {cores} cores when this began: the rates are lower and noisier than on an "
        "idle machine."
    )


def extras() -> dict[str, list[str]]:
    """The packages of each extra of rookery, from its metadata."""
    found: dict[str, list[str]] = {}
    for line in metadata.requires("rookery") or []:
        match = re.match(r"""([\w.-]+).*;.*extra\s*==\s*["']([\w-]+)["']""", line)
        if match and match[1] != "rookery":
            found.setdefault(match[2], []).append(match[1])
    return found


def print_machine(out: Console, facts: dict[str, Any]) -> None:
    """Print the last lines of every report: the machine and the packages."""
    warning = busy_line(facts)
    if warning:
        out.print(warning, style="yellow")
    out.print(machine_line(facts), style="dim")
