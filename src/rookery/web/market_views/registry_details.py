"""What a registry's files say: who is champion and challenger, each version with the gate's decision, and the log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rookery.errors import RookeryError
from rookery.files import open_plain
from rookery.training.storage.registry_folder import (
    ALIASES,
    MARKER,
    OUTPUTS,
    read_about,
    read_state,
    version_path,
)
from rookery.training.storage.run_record import as_object

DECISIONS = ("promote", "refuse")
MOST_VERSIONS = 500
LOG_TAIL = 8 << 20  # bytes of the log that are read, from its end
ABOUT = ("world", "study", "trial", "run", "run_path", "checkpoint", "step", "created", "data_hash", "evaluation")
Entry = dict[str, Any]


def is_registry(folder: Path) -> bool:
    """Whether a folder is a registry, by a regular file in it."""
    marker = folder / MARKER
    return marker.is_file() and not marker.is_symlink()


def registry_row(folder: Path) -> dict[str, Any]:
    """What the list of all registries shows."""
    state = read_state(folder)
    change = state.get("change") or {}
    return {
        "aliases": {alias: state[alias] for alias in ALIASES if alias in state},
        "versions": state.get("newest", 0),
        "changed": change.get("time"),
        "what": change.get("what"),
    }


def registry_details(folder: Path) -> dict[str, Any]:
    """A registry with its newest versions. A damaged version says so, and the others are there."""
    state = read_state(folder)
    entries, is_whole = read_entries(folder, state)
    newest = state.get("newest", 0)
    numbers = range(newest, max(0, newest - MOST_VERSIONS), -1)
    versions = [_version(folder, number, entries) for number in numbers if version_path(folder, number).is_dir()]
    aliases = {alias: state[alias] for alias in ALIASES if alias in state}
    return {
        "aliases": aliases,
        "versions": versions,
        "newest": newest,
        "entries": len(entries),
        "is_whole": is_whole,
        "compared": _compared(aliases, versions),
    }


def read_entries(folder: Path, state: dict[str, Any] | None = None) -> tuple[list[Entry], bool]:
    """The entries of the log, the oldest first, and whether these are all. The last change counts even if a killed
    process has not logged it."""
    state = read_state(folder) if state is None else state
    try:
        with os.fdopen(open_plain(folder / "audit.jsonl", os.O_RDONLY), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - LOG_TAIL))
            lines = file.read(LOG_TAIL).split(b"\n")[:-1]
    except FileNotFoundError:
        lines, size = [], 0
    if size > LOG_TAIL:
        lines = lines[1:]  # begins in the middle
    entries = [as_object(line) or {"what": "a line that is damaged"} for line in lines]
    last = state.get("change")
    if isinstance(last, dict) and (not entries or entries[-1].get("entry") != last["entry"]):
        entries.append(last)
    return entries, size <= LOG_TAIL


def _version(folder: Path, number: int, entries: Sequence[Entry]) -> dict[str, Any]:
    path = version_path(folder, number)
    found: dict[str, Any] = {"number": number, "error": None, "decision": _decision(number, entries)}
    outputs = folder / OUTPUTS / f"{number:06d}"
    found["accounts"] = [
        name
        for name, file in (
            (f"version-{number}", outputs / "report" / "account.npy"),
            (f"gate-{number}", outputs / "gate" / "candidate.npy"),
            (f"rival-{number}", outputs / "gate" / "champion.npy"),
        )
        if file.is_file()
    ]
    try:
        about = {} if path.is_symlink() else read_about(path)
    except RookeryError as error:
        return {**found, "error": str(error)}
    return {**found, **{key: about.get(key) for key in ABOUT}}


def _decision(number: int, entries: Sequence[Entry]) -> dict[str, Any] | None:
    """The last decision of a gate about a version."""
    for entry in reversed(entries):
        evidence = entry.get("evidence")
        if entry.get("version") != number or entry.get("what") not in DECISIONS or not isinstance(evidence, dict):
            continue
        figures, reasons = evidence.get("figures"), evidence.get("reasons")
        return {
            "what": entry["what"],
            "time": entry.get("time"),
            "champion": entry.get("from"),
            "passed": bool(evidence.get("passed")),
            "reasons": [str(reason) for reason in reasons] if isinstance(reasons, list) else [],
            "figures": figures if isinstance(figures, dict) else {},
        }
    return None


def _compared(aliases: dict[str, int], versions: Sequence[dict[str, Any]]) -> int | None:
    """The version whose comparison is shown first: the challenger's, else the champion's, else the newest one."""
    decided = [version["number"] for version in versions if version["decision"]]
    wanted = [aliases.get("challenger"), aliases.get("champion"), *decided]
    return next((number for number in wanted if number in decided), None)
