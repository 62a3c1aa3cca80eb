"""The machine and the packages of a measurement."""

from __future__ import annotations

import platform
import re
from importlib import metadata
from typing import Any

import psutil
from rich.console import Console

from rookery.engine.machine import allowed_cores, usable_cores

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
