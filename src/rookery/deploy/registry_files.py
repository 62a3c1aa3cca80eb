"""What is written to a registry: the folders of versions, and the log of changes.

A version holds what acting, exporting and further training need of a run, and nothing else.

`audit.jsonl` has every change of a registry, one JSON object a line, never rewritten. A change takes effect when
`aliases.json` is replaced, and that file contains the change's own entry as well. The line is appended after that. So
whatever moment a process is killed in, the log lacks at most its last line, and that line is still known: who changes
the registry next completes the log first, and readers see the entry in the meantime.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import rookery.version
from rookery.console import printable
from rookery.errors import RegistryError
from rookery.files import open_plain, read_plain, replace_file, sync_folder
from rookery.monitor.jsonl import append_record, open_append_only, plain
from rookery.training.storage.checkpoint import agents_of, save
from rookery.training.storage.checkpoint_files import Tree
from rookery.training.storage.registry_folder import ABOUT, file_hash, files_in, sealed
from rookery.training.storage.run_dir import RunDir

UNFINISHED = ".unfinished"  # the folder of a version that is being written; there is one writer at a time
RECORDS = ("summary.json", "evaluations.jsonl", "metrics.jsonl")  # for `compare`; they decide nothing
LARGEST_RECORD = 8 << 20
FROM_BIRTH = ("created", "id", "code")  # of run.json: `code` is what trust is decided by
BLOCK = 1 << 16  # bytes


def write_version(run: RunDir, folder: Path, about: Mapping[str, Any], checkpoint: str = "best") -> None:
    """Make the version `folder` from a run's best or latest checkpoint. It is written beside, made read-only, and
    renamed: it is there whole or not at all."""
    beside = folder.parent / UNFINISHED
    remove_version(beside)
    beside.mkdir()
    step = _write_run(run, RunDir(beside), checkpoint)
    facts = {
        **plain(about),
        "run": run.name,
        "run_id": run.id,
        "checkpoint": checkpoint,
        "step": step,
        "code": _code_version(),
        "created": time.time(),
        "files": {name: file_hash(beside / name) for name in files_in(beside)},
    }
    replace_file(beside / ABOUT, [json.dumps(sealed(facts), indent=2).encode(), b"\n"])
    _make_read_only(beside)
    beside.rename(folder)
    sync_folder(folder.parent)


def remove_version(folder: Path) -> None:
    """Remove what is left of a version that was never finished."""
    if not folder.is_dir() or folder.is_symlink():
        return
    for place, _, _ in os.walk(folder):
        Path(place).chmod(0o755)
    shutil.rmtree(folder)


def _write_run(run: RunDir, slim: RunDir, checkpoint: str) -> int:
    """Write configuration and checkpoint; returns the checkpoint's step."""
    checkpoints = agents_of(run.name, run.checkpoints)
    step, tree = checkpoints.load_best() if checkpoint == "best" else checkpoints.load_latest()
    config = run.read_config()
    section = config.get("checkpoints")
    if isinstance(section, dict):
        config = {**config, "checkpoints": {**section, "dir": None}}  # they are in the version itself
    slim.write_config(config)
    for name in RECORDS:
        record = run.path / name
        if record.is_file() and not record.is_symlink() and record.stat().st_size <= LARGEST_RECORD:
            replace_file(slim.path / name, [read_plain(record, LARGEST_RECORD)])
    birth = run.birth()
    slim.remember(**{name: birth[name] for name in FROM_BIRTH if name in birth})
    save(slim.path / "checkpoints" / f"step-{step:012d}", _slim_tree(tree), run=run.id)
    return step


def _slim_tree(tree: Tree) -> Tree:
    """The agent, the learner's networks for `init_from`, and whether there are action masks."""
    envs = tree.get("envs") or {}
    kept = {"agent": tree["agent"], "envs": {"masks": envs["masks"]} if "masks" in envs else {}}
    if "learner" in tree:
        kept["learner"] = {name: value for name, value in tree["learner"].items() if name not in ("replay", "pending")}
    return kept


def _make_read_only(folder: Path) -> None:
    for place, _, files in os.walk(folder, topdown=False):
        for name in files:
            (Path(place) / name).chmod(0o444)
        sync_folder(Path(place))
        Path(place).chmod(0o555)


@cache
def _code_version() -> dict[str, str]:
    """The version, and the SHA-256 over all of rookery's Python files: it tells changed sources of the same version
    apart."""
    root, digest = Path(rookery.version.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return {"rookery": rookery.version.__version__, "sha256": digest.hexdigest()}


Entry = dict[str, Any]


class AuditLog:
    """The log of a registry. Only the holder of the registry's lock may append to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, last: Entry | None = None) -> list[Entry]:
        """All entries, the oldest first. `last` is the entry in `aliases.json`, which the log may lack."""
        entries = self._complete_lines()
        if last is not None and (not entries or entries[-1]["entry"] < last["entry"]):
            entries.append(last)
        return entries

    def append(self, entry: Entry) -> None:
        """Append an entry, and sync it to the disk."""
        with open_append_only(self.path) as file:
            append_record(file, json.dumps(entry).encode() + b"\n")
            os.fsync(file.fileno())

    def repair(self, last: Entry | None) -> None:
        """Remove a line that was written in part, and add the last entry if it is missing."""
        size, end, line = self._last_line()
        newest, known = self._parse(line)["entry"] if line else 0, last["entry"] if last else 0
        if newest > known:
            raise RegistryError(
                f"{printable(self.path)} knows {newest} changes, and aliases.json beside it {known}: it is missing or "
                "an older copy; restore the newest one"
            )
        if size > end:
            self._cut(end)
        if last is not None and newest < known:
            self.append(last)

    def _last_line(self) -> tuple[int, int, bytes]:
        """The size of the file, where its last complete line ends, and that line. Only the end of the file is read."""
        try:
            fd = open_plain(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return 0, 0, b""
        with os.fdopen(fd, "rb") as file:
            size, block = os.fstat(fd).st_size, BLOCK
            while True:
                start = max(0, size - block)
                file.seek(start)
                tail = file.read(size - start)
                end = tail.rfind(b"\n") + 1
                begin = tail.rfind(b"\n", 0, max(0, end - 1)) + 1
                if begin or not start:
                    return size, start + end, tail[begin:end]
                block *= 2

    def _cut(self, size: int) -> None:
        fd = open_plain(self.path, os.O_RDWR)
        try:
            os.ftruncate(fd, size)
            os.fsync(fd)
        finally:
            os.close(fd)

    def _complete_lines(self) -> list[Entry]:
        """The entries; the last line does not count if it was written in part."""
        try:
            with os.fdopen(open_plain(self.path, os.O_RDONLY), "rb") as file:
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        return [self._parse(line, number) for number, line in enumerate(lines, 1)]

    def _parse(self, line: bytes, number: int | None = None) -> Entry:
        try:
            entry = json.loads(line)
            if isinstance(entry, dict) and type(entry.get("entry")) is int:
                return entry
        except (ValueError, RecursionError):
            pass
        line_name = "its last line" if number is None else f"line {number}"
        raise RegistryError(f"{printable(self.path)} is damaged: {line_name} is not an entry of the log")
