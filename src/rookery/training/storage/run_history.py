"""What a run was made with, in `run.json`: versions, machine, and the configuration before each change.

A run is one history of openings: its start, and each resume that changed something. Playing a moment of it again takes
the configuration of then; another version of a package may give other numbers.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rookery.engine.machine import usable_cores
from rookery.errors import CheckpointError
from rookery.training.storage.checkpoint import LARGEST_STATE, STATE, CheckpointEntry, Checkpoints
from rookery.training.storage.checkpoint_files import parse_json, read_contents
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import flat_config
from rookery.version import __version__

PACKAGES = ("gymnasium", "numpy", "torch", "numba", "mujoco", "pyboy")
HISTORY = "history"
# Keys on which no number depends.
NEUTRAL = (
    "monitor.", "checkpoints.keep", "checkpoints.budget", "checkpoints.dir", "checkpoints.mirror", "workers", "backend",
    "name", "runs_dir", "tables",
)  # fmt: skip


@dataclass(frozen=True)
class RunSegment:
    """From `step` on, the run had this configuration, these versions and this machine."""

    step: int
    config: dict[str, Any]
    versions: dict[str, str]
    machine: str


@cache
def package_versions() -> dict[str, str]:
    """Of rookery and of those packages that decide about numbers and are installed here."""
    found = {"rookery": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        number = getattr(sys.modules.get(package), "__version__", None) or _installed(package)
        if number is not None:
            found[package] = number
    return found


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def machine_text() -> str:
    """The machine as far as numbers may depend on it.

    >>> machine_text().startswith(platform.system())
    True
    """
    return f"{platform.system()} {platform.machine()}, {_processor()}, {usable_cores()} cores"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    named = (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "CPU part")))
    return next(named, platform.processor() or "unknown processor")


def note_opening(folder: RunDir, step: int, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> None:
    """Record that the run begins, or is resumed at `step` with another configuration than `before`."""
    entries = [{**entry, "step": min(entry["step"], step)} for entry in _entries(folder)]
    made = {"versions": package_versions(), "machine": machine_text()}
    changed = {} if before is None else dict(_changed(before, after))
    if entries and not changed and {name: entries[-1].get(name) for name in made} == made:
        return
    folder.remember(**{HISTORY: [*entries, {"step": step, "before": changed, **made}]})


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The keys with another value than before, and that value; without those on which no number depends."""
    old, new = dict(flat_config(before)), dict(flat_config(after))
    for key, value in old.items():
        if not key.startswith(NEUTRAL) and new.get(key) != value:
            yield key, value


def segments(folder: RunDir) -> list[RunSegment]:
    """The run's history, the start first; [] of a run from before there was one."""
    config, found = folder.read_config(), list[RunSegment]()
    for entry in reversed(_entries(folder)):
        found.append(RunSegment(entry["step"], config, dict(entry.get("versions", {})), str(entry.get("machine", ""))))
        config = _with(config, entry.get("before", {}))
    return found[::-1]


def base_before(run: RunDir, step: int) -> CheckpointEntry | None:
    """The last checkpoint at or before a step from which the run continues exactly; None means from its beginning."""
    for entry in reversed(Checkpoints(run.checkpoints).entries()):
        if entry.step <= step and _continues_exactly(entry.path):
            return entry
    return None


def _continues_exactly(path: Path) -> bool:
    """Whether a checkpoint holds the envs and, of an off-policy learner, the replay buffer."""
    try:
        state = parse_json(path / STATE, read_contents(path / STATE, LARGEST_STATE))
        learner = state["learner"]
        return bool(state["envs"]) and ("rollout" in learner or "replay" in learner)
    except (CheckpointError, OSError, KeyError, TypeError):
        return False


def _with(config: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A nested configuration with other values of some keys, which have dots."""
    changed = dict(config)
    for key, value in values.items():
        section, dot, name = key.partition(".")
        inner = changed.get(section)
        changed[section] = _with(inner if isinstance(inner, dict) else {}, {name: value}) if dot else value
    return changed


def _entries(folder: RunDir) -> list[dict[str, Any]]:
    found = folder.birth().get(HISTORY)
    valid = isinstance(found, list) and all(
        isinstance(entry, dict) and type(entry.get("step")) is int and isinstance(entry.get("before"), dict)
        for entry in found
    )
    return found if isinstance(found, list) and valid else []
