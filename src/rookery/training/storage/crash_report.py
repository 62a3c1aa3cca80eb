"""Reads crash reports: `training/run/crash.py` writes one, a small file, to the folder of a run that an error or a NaN
has ended, so that the step before can be reached on another machine.

It is a zip file with the run's configuration, history and last lines of metrics, and its last exact checkpoint if that
is small; without it, the run is trained again from its beginning. A report may be from anybody: it is unpacked to a run
folder, nothing else, and what its configuration names passes the gate as that of any run.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rookery.console import printable, say
from rookery.errors import FileError
from rookery.files import read_plain
from rookery.training.storage.remote_run import RUN_NAME

FILE = "crash-report.zip"
REPORT = "report.json"
VERSION = 1
LARGEST_REPORT = 32 << 20  # bytes, of the file and of all that is in it
MOST_FILES = 64
RECORDS = ("config.json", "run.json", "metrics.jsonl", "num_envs.jsonl")
CHECKPOINT = re.compile(r"(step-[0-9]{12,18}(?:-[0-9]{1,9})?)/([A-Za-z0-9_%][A-Za-z0-9_.%-]{0,99})")
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)


def is_report(path: Path) -> bool:
    """Whether a file says that it is a crash report."""
    try:
        with zipfile.ZipFile(path) as archive:
            return REPORT in archive.namelist()
    except UNREADABLE:
        return False


def unpack_report(path: Path, base: Path) -> Path:
    """The folder of a run in `base` with what a report holds; the same one again, if it was unpacked before.

    Raises:
        FileError: It is not such a report, or one that rookery did not write.
    """
    name = printable(path)
    try:
        with zipfile.ZipFile(path) as archive:
            files = dict(_members(archive, path, name))
    except FileError:
        raise
    except UNREADABLE as error:
        raise FileError(f"{name} is not a readable crash report: {printable(str(error))[:200]}") from None
    facts = _facts(files.pop(REPORT), name)
    run_name = f"{facts['run'][:80]}-crash"
    if not RUN_NAME.fullmatch(run_name) or ".." in run_name:
        raise FileError(f"{name} is not a crash report: {run_name!r:.120} cannot be the name of a run")
    folder = Path(base) / run_name
    if folder.exists():
        _refuse_another(folder, files, name)
        return folder
    arriving = folder.with_name(f".{run_name}.{uuid.uuid4().hex}")
    try:
        for member, data in files.items():
            target = arriving / (member if member in RECORDS else f"checkpoints/{member}")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        arriving.rename(folder)
    finally:
        shutil.rmtree(arriving, ignore_errors=True)
    say(f"{name} was unpacked to {folder}")
    return folder


def _members(archive: zipfile.ZipFile, path: Path, name: str) -> Iterator[tuple[str, bytes]]:
    """All files inside, whose names and sizes are those of a report."""
    members = archive.infolist()
    names = [member.filename for member in members]
    if path.stat().st_size > LARGEST_REPORT or sum(member.file_size for member in members) > LARGEST_REPORT:
        raise FileError(f"{name} is larger than any crash report: {LARGEST_REPORT >> 20} MiB")
    if len(members) > MOST_FILES or len(set(names)) < len(names):
        raise FileError(f"{name} is not a crash report: it holds too many files, or two of one name")
    odd = [each for each in names if each not in (REPORT, *RECORDS) and not CHECKPOINT.fullmatch(each)]
    if odd:
        raise FileError(f"{name} is not a crash report: {odd[0]!r:.80} is in it")
    if not {REPORT, "config.json", "run.json"} <= {*names} or len({each.partition("/")[0] for each in names}) > 6:
        raise FileError(f"{name} is not a crash report: files are missing, or there are two checkpoints")
    for member in members:
        with archive.open(member) as file:  # reads no more than the size that was checked
            yield member.filename, file.read(member.file_size)


def _facts(text: bytes, name: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict) or not isinstance(facts.get("run"), str):
        raise FileError(f"{name} is not a crash report: its {REPORT} is damaged")
    if facts.get("version") != VERSION:
        raise FileError(f"{name} has version {facts.get('version')!r:.40}, this rookery reads version {VERSION}")
    return facts


def _refuse_another(folder: Path, files: dict[str, bytes], name: str) -> None:
    try:
        same = read_plain(folder / "run.json", LARGEST_REPORT) == files["run.json"]
    except OSError:
        same = False
    if not same:
        raise FileError(f"{printable(folder)} is another run than that of {name}: give --runs-dir another folder")
