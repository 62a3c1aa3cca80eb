"""All that is known of one run, from its folder, but for its curves."""

from __future__ import annotations

import os
import re
import shlex
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from rookery.files import open_plain, pread
from rookery.monitor import run_summary
from rookery.monitor.bottleneck import advise
from rookery.monitor.jsonl import METRICS
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import read_config
from rookery.web.live.event_stream import parse_event
from rookery.web.live.metrics_reader import LONGEST_LINE, Position, ends_at, position_at

MOST_FILES = 1000
MOST_NOTES, MOST_EVALUATIONS, MOST_CHECKPOINTS = 1000, 5000, 1000
VIDEOS, PICTURES = (".mp4", ".webm", ".gif", ".webp"), (".png", ".svg", ".jpg", ".jpeg", ".gif", ".webp")
# Facts of the start event that rookery chose or measured, where the user did not.
CHOSEN = ("num_envs", "backend", "workers", "groups", "threads", "start_method", "device", "cores")
RESUME = "rookery resume "
WORKER_MEMORY = "system/memory_worker_"
RARE = re.compile(rb'"kind":\s*"(?!progress")')
READ_BYTES = 1 << 18  # at once: what is read in several threads stays in the memory of each
SECONDS = 0.3  # of one call; the next one continues
FIRST_SECONDS = 0.02  # of the first: the page of the run waits for it, and its curves are read at the same time
MOST_EVENTS = 20_000


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
        "fork_of": run.birth().get("parent"),
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


class RareEvents:
    """The events of one run that are not progress, as far as they have been read: few among many, found without parsing
    the lines of progress. `update` reads what was added since the last time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / METRICS
        self._lock = Lock()
        self._position = Position(0)
        self._events: list[dict[str, Any]] = []
        self.progress: dict[str, Any] = {}
        self.memory: dict[str, Any] = {}  # the last progress with the memory of workers: few have it
        self.complete = False

    @property
    def position(self) -> Position:
        """Until where it was read."""
        return self._position

    def update(self, seconds: float = SECONDS) -> list[dict[str, Any]]:
        """The events, without those after a checkpoint from which the run was resumed. `complete` says whether the end
        of the file was reached in time."""
        with self._lock:
            seconds = seconds if self._position.offset else min(seconds, FIRST_SECONDS)
            try:
                with os.fdopen(open_plain(self._path, os.O_RDONLY), "rb", buffering=0) as file:
                    self._read(file.fileno(), time.monotonic() + seconds)
            except OSError:  # no event yet, or the run is gone
                self.complete = True
            return list(self._events)

    def _read(self, fd: int, deadline: float) -> None:
        if not ends_at(fd, self._position):  # another file
            self._position, self._events, self.progress, self.memory = Position(0), [], {}, {}
        self.complete = False
        while not self.complete and time.monotonic() < deadline:
            data, end = _lines_at(fd, self._position.offset)
            for event in _rare(data[:end]):
                self._add(event)
            self.progress = _last_progress(data[:end], b'"steps_per_second"') or self.progress
            self.memory = _last_progress(data[:end], f'"{WORKER_MEMORY}'.encode()) or self.memory
            self._position = position_at(fd, self._position.offset + end)
            self.complete = not end or len(data) < READ_BYTES

    def _add(self, event: dict[str, Any]) -> None:
        resumed_from = event.get("resumed_from") if event["kind"] == "start" else None
        if isinstance(resumed_from, int | float):
            self._events = [before for before in self._events if before["step"] <= resumed_from]
        self._events.append(event)
        if len(self._events) > MOST_EVENTS:  # the first of them has the facts, the last ones are the news
            del self._events[MOST_EVENTS // 4 : MOST_EVENTS // 2]


def _lines_at(fd: int, offset: int) -> tuple[bytes, int]:
    """What is read at once, and where in it the complete lines end. A line that is too long is passed over."""
    data = pread(fd, READ_BYTES, offset)
    end = data.rfind(b"\n") + 1
    if not end and len(data) == READ_BYTES:
        data = pread(fd, LONGEST_LINE, offset)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == LONGEST_LINE:
            end = len(data)
    return data, end


def _rare(data: bytes) -> list[dict[str, Any]]:
    found, at = [], 0
    while match := RARE.search(data, at):
        start, at = data.rfind(b"\n", 0, match.start()) + 1, data.find(b"\n", match.end()) + 1 or len(data)
        event = parse_event(data[start:at])
        if event and event["kind"] != "progress":
            found.append(event)
    return found


def _last_progress(data: bytes, having: bytes) -> dict[str, Any] | None:
    """The last one that has a value, such as a speed: the very last may be of an evaluation's time alone."""
    at = len(data)
    for _ in range(20):
        at = data.rfind(having, 0, at)
        if at < 0:
            return None
        start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at) + 1 or len(data)
        event = parse_event(data[start:end])
        if event and event["kind"] == "progress":
            return event
        at = start
    return None
