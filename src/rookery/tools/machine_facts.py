"""The machine and the packages that figures were measured with."""

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
    """How many cores' worth of time other programs take just now."""
    return psutil.cpu_percent(seconds) / 100 * (psutil.cpu_count() or 1)


def machine_facts(*packages: str) -> dict[str, Any]:
    """What a reader needs to judge a measurement, as plain values; to be called before measuring."""
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
    """A warning, if the machine had other work to do when measuring began."""
    busy, cores = facts["busy_cores"], facts["cores"]
    if busy < BUSY * cores:
        return None
    return (
        f"Other programs kept {busy:.1f} of {cores} cores busy when this began: figures are lower and noisier for it."
    )


def extras() -> dict[str, list[str]]:
    """The packages that each extra of rookery brings, as its own metadata tells."""
    found: dict[str, list[str]] = {}
    for line in metadata.requires("rookery") or []:
        match = re.match(r"""([\w.-]+).*;.*extra\s*==\s*["']([\w-]+)["']""", line)
        if match and match[1] != "rookery":
            found.setdefault(match[2], []).append(match[1])
    return found


def print_machine(out: Console, facts: dict[str, Any]) -> None:
    """The last lines of every report: what it was measured on."""
    warning = busy_line(facts)
    if warning:
        out.print(warning, style="yellow")
    out.print(machine_line(facts), style="dim")
