"""All that is known of one run, from its folder, but for its curves."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rookery.monitor import run_summary
from rookery.monitor.bottleneck import advise
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import read_config
from rookery.web.live.rare_events import RareEvents

MOST_FILES = 1000
MOST_NOTES, MOST_EVALUATIONS, MOST_CHECKPOINTS = 1000, 5000, 1000
VIDEOS, PICTURES = (".mp4", ".webm", ".gif", ".webp"), (".png", ".svg", ".jpg", ".jpeg", ".gif", ".webp")
# Facts of the start event that rookery chose or measured, where the user did not.
CHOSEN = ("num_envs", "backend", "workers", "groups", "threads", "start_method", "device", "cores")
RESUME = "rookery resume "
WORKER_MEMORY = "system/memory_worker_"


def run_details(folder: Path, rare: RareEvents, row: Mapping[str, Any]) -> dict[str, Any]:
    """The details of the run in a folder; what is not there is empty. `row` is its row in the table."""
    run, events = RunDir(folder), rare.update()
    config, starts = read_config(run), _of_kind(events, "start")
    notes = _of_kind(events, "note")[-MOST_NOTES:]
    end = _of_kind(events, "end")[-1:] if row.get("state") != "running" else []
    facts = dict(starts[-1]) if starts else {}
    return {
        "row": row,
        "path": str(folder),
        "facts": facts,
        "config": config,
        "chosen": {key: facts[key] for key in CHOSEN if facts.get(key) is not None},
        "starts": starts[-MOST_NOTES:],
        "notes": notes,
        "warnings": [note for note in notes if note.get("warning")],
        "evaluations": _of_kind(events, "evaluation")[-MOST_EVALUATIONS:],
        "checkpoints": _checkpoints(run, events),
        "end": end[0] if end else None,
        "progress": rare.progress,
        "bottleneck": advise(rare.progress, facts) or None,
        "workers": _workers(rare.memory),
        "phases": config.get("phases") or [],
        "league": (folder / "league").is_dir(),
        "commands": _commands(folder, facts, end[0] if end else {}, row.get("state") == "running"),
        **_files(folder),
        "complete": rare.complete,
        "cursor": str(rare.position),
    }


def _of_kind(events: Iterable[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["kind"] == kind]


def _checkpoints(run: RunDir, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The checkpoints that were written, and whether each is still there: a run keeps the last ones and the best."""
    there = _names(run)
    written = _of_kind(events, "checkpoint")[-MOST_CHECKPOINTS:]
    found = [{**event, "name": Path(str(event.get("path", ""))).name} for event in written]
    known = {checkpoint["name"] for checkpoint in found}
    found += [{"name": name, "step": _step(name)} for name in sorted(there - known)[:MOST_CHECKPOINTS]]
    return [{**checkpoint, "kept": checkpoint["name"] in there} for checkpoint in found]


def _names(run: RunDir) -> set[str]:
    try:
        return {
            entry.name for entry in os.scandir(run.checkpoints) if entry.is_dir() and not entry.name.startswith(".")
        }
    except Exception:  # noqa: BLE001 - a damaged config, a drive that is gone: then there are none
        return set()


def _step(name: str) -> int | None:
    digits = name.removeprefix("step-")
    return int(digits) if digits.isdecimal() else None


def _workers(progress: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The memory of each worker process, as of the last progress that tells it."""
    found = {key.removeprefix(WORKER_MEMORY): value for key, value in progress.items() if key.startswith(WORKER_MEMORY)}
    return [
        {"worker": int(number), "memory": found[number]} for number in sorted(filter(str.isdecimal, found), key=int)
    ]


def _commands(folder: Path, facts: Mapping[str, Any], end: Mapping[str, Any], is_running: bool) -> list[dict[str, str]]:
    """What to type next, with the path at which this run is now."""
    values = {"steps": facts.get("steps"), **end, "run": folder.name, "path": str(folder)}
    if not end and not is_running:
        values["reason"] = "interrupted"  # it can be resumed as it is
    found = [each for each in run_summary.commands(values) if not is_running or not each[1].startswith(RESUME)]
    if is_running:  # what it does now comes first
        found.sort(key=lambda each: each[0] != "watch it")
    path = shlex.quote(str(folder))
    more = (("write a report", "report"), ("draw its curves", "plot"), ("export its agent", "export"))
    return [{"what": what, "command": command} for what, command in found] + [
        {"what": what, "command": f"rookery {verb} {path}"} for what, verb in more
    ]


def _files(folder: Path) -> dict[str, list[dict[str, Any]]]:
    files = sorted(_walk(folder, MOST_FILES), key=lambda file: str(file["path"]))
    return {
        "videos": [file for file in files if _is_in(file, "videos", VIDEOS)],
        "plots": [file for file in files if _is_in(file, "plots", PICTURES) or _is_in(file, "report", PICTURES)],
        "files": files,
    }


def _is_in(file: Mapping[str, Any], folder: str, endings: tuple[str, ...]) -> bool:
    path = str(file["path"]).lower()
    return path.startswith(f"{folder}/") and path.endswith(endings)


def _walk(folder: Path, most: int) -> Iterator[dict[str, Any]]:
    """Regular files in a folder and its folders, not through links; without those of checkpoints and hidden ones."""
    waiting = [(folder, "")]
    while waiting and most > 0:
        place, prefix = waiting.pop()
        for entry in _entries(place):
            mode, found = _look(entry)
            if found is None or entry.name.startswith(".") or most <= 0:
                continue
            if stat.S_ISDIR(mode) and prefix + entry.name not in ("checkpoints", "league"):
                waiting.append((Path(entry.path), f"{prefix}{entry.name}/"))
            elif stat.S_ISREG(mode):
                most -= 1
                yield {"path": prefix + entry.name, "bytes": found.st_size, "time": found.st_mtime}


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _look(entry: os.DirEntry[str]) -> tuple[int, os.stat_result | None]:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return 0, None
    return found.st_mode, found
