"""What a run leaves when an error or a NaN has ended it: the moment before, and a crash report."""

from __future__ import annotations

import json
import math
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rookery.console import printable, say
from rookery.errors import RookeryError, RunError
from rookery.files import replace_file
from rookery.training.run.loop import Loop
from rookery.training.storage.checkpoint import CheckpointEntry
from rookery.training.storage.crash_report import FILE, RECORDS, REPORT, VERSION
from rookery.training.storage.moments import find_moment
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_history import base_before

MOST_TEXT = 1000  # characters of an error
LARGEST_CHECKPOINT = 16 << 20  # bytes
LARGEST_LINES = 4 << 20  # of metrics


def report_error(folder: RunDir, loop: Loop, error: BaseException) -> None:
    """Write the report of a run that an error has ended."""
    if isinstance(error, Exception):
        _report(folder, _moment(loop) | {"error": f"{type(error).__name__}: {error}"[:MOST_TEXT]})


def report_nan(folder: RunDir, loop: Loop) -> None:
    """The same of a run whose last losses or weights are not numbers."""
    weights = (float(each.detach().sum()) for each in loop.learner.policy.parameters())
    if loop.learner.updates == 0 or all(map(math.isfinite, [*loop.collector.metrics.values(), *weights])):
        return
    known = 0
    with suppress(RunError):  # no line of progress shows it
        known = find_moment(folder, "nan").known
    _report(folder, {"kind": "nan", "known": known, "step": known, "error": "a loss or a weight is not a number"})


def _moment(loop: Loop) -> dict[str, Any]:
    """A moment that can be reached without the error: between two steps of a rollout or, if the error came with an
    update or with what follows one, just before that update. An off-policy learner's updates and steps go together."""
    learner, steps, num_envs = loop.learner, loop.steps, loop.num_envs
    if not learner.on_policy:
        before = max(0, steps - num_envs)
        return {"step": before, "known": before}
    if learner.ready() or (learner.steps_since_update == 0 and learner.updates):
        known = max(0, steps - learner.options.rollout_length * num_envs)
        return {"update": learner.updates + int(learner.ready()), "known": known}
    return {"step": steps, "known": steps}


def _report(folder: RunDir, crash: dict[str, Any]) -> None:
    """Nothing that fails here may hide the error that ended the run."""
    try:
        path = write_report(folder, crash)
    except (RookeryError, OSError, ValueError) as error:
        say(f"no crash report was written: {printable(str(error))}")
        return
    say(f"the crash report is {printable(path)}: `rookery rewind {printable(path)}` reaches the step before, anywhere")


def write_report(run: RunDir, crash: dict[str, Any]) -> Path:
    """Note in the run's folder how it ended, and write the report. `crash` has `error`, `known` (a step from before it)
    and `step` or `update`, as `storage/moments.py` reads them."""
    run.remember(crash=crash)
    base = base_before(run, int(crash["known"]))
    files = {name: _record(run.path / name) for name in RECORDS}
    included = dict(_checkpoint(base)) if base is not None else {}
    where = None if base is None else str(base.path.absolute())
    found = {"version": VERSION, "run": run.name, **crash, "checkpoint": where, "included": bool(included)}
    contents = {REPORT: json.dumps(found, indent=2).encode(), **files, **included}
    path, arriving = run.path / FILE, run.path / f".{uuid.uuid4().hex}.zip"
    try:
        with zipfile.ZipFile(arriving, "x", zipfile.ZIP_DEFLATED) as archive:
            for name, data in contents.items():
                if data is not None:
                    archive.writestr(name, data)
        replace_file(path, [arriving.read_bytes()])
    finally:
        arriving.unlink(missing_ok=True)
    return path


def _record(path: Path) -> bytes | None:
    """A record of the run; of its metrics, the last lines."""
    if path.is_symlink() or not path.is_file():
        return None
    with path.open("rb") as file:
        size = path.stat().st_size
        file.seek(max(0, size - LARGEST_LINES))
        data = file.read(LARGEST_LINES)
    return data if size <= LARGEST_LINES else data[data.find(b"\n") + 1 :]


def _checkpoint(entry: CheckpointEntry) -> Iterator[tuple[str, bytes]]:
    files = sorted(entry.path.iterdir())
    if sum(file.stat().st_size for file in files) <= LARGEST_CHECKPOINT:
        yield from ((f"{entry.path.name}/{file.name}", file.read_bytes()) for file in files)
