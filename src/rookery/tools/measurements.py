"""Steps per second of several engines, in turns; and the machine and the packages of a measurement."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import psutil
from rich.console import Console

from rookery import printing
from rookery.engine.contest import TURNS, EnginePlan, contest
from rookery.engine.cost_memory import Cost, Probe, useful_workers
from rookery.engine.env_factory import EnvFactory
from rookery.engine.machine import BUSY, allowed_cores, busy_cores, usable_cores
from rookery.errors import OptionError


@dataclass(frozen=True)
class Trial:
    """The result of one configuration."""

    backend: str
    num_envs: int
    workers: int
    steps_per_second: float
    memory: int  # bytes: of the worker processes, or of the envs if they are in this process

    @property
    def plan(self) -> EnginePlan:
        return EnginePlan(self.backend, self.num_envs, self.workers)


def measure_trials(source: EnvFactory, cost: Cost, plans: Sequence[EnginePlan], seconds: float) -> list[Trial]:
    """Step an engine of each plan for `seconds`, in turns."""
    with printing.progress(TURNS * len(plans)) as advance:
        measured = contest(source, cost, plans, seconds, on_turn=lambda plan: advance(_words(plan)))
    return [Trial(*plan, rate, memory) for plan, (rate, memory) in zip(plans, measured, strict=True)]


def _words(plan: EnginePlan) -> str:
    on_workers = f" on {plan.workers} workers" if plan.backend == "process" else ""
    return f"{plan.backend}, {plan.num_envs} envs{on_workers}"


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


def package_version(name: str) -> str | None:
    """The installed version, without importing the package."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def versions(*names: str) -> dict[str, str | None]:
    return {name: package_version(name) for name in names}


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
