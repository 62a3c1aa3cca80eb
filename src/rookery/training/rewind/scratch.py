"""The folder in which a part of a run is played again: a copy of what it needs. The run itself is only read."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from rookery.config import RunConfig, build_config
from rookery.training.league.archive import FOLDER
from rookery.training.storage.checkpoint import CheckpointEntry
from rookery.training.storage.run_dir import RunDir

SILENT = {
    "verbose": False, "panel": False, "system": False, "tensorboard": False, "wandb": False,
    "mlflow": False, "plot": False, "report": False, "video": False,
}  # fmt: skip
PREFIX, ABANDONED_SECONDS = "rookery-rewind-", 3600.0
NUM_ENVS = "num_envs.jsonl"
NEVER = 1 << 60  # a step that no run reaches


def quiet(config: dict[str, Any]) -> RunConfig:
    """A recorded configuration without output: no number depends on that."""
    found = build_config(config)
    checkpoints = found.checkpoints.model_copy(update={"dir": None, "mirror": None})
    return found.model_copy(update={"monitor": found.monitor.model_copy(update=SILENT), "checkpoints": checkpoints})


def make_scratch(run: RunDir, config: dict[str, Any], base: CheckpointEntry | None) -> RunDir:
    """A folder with this configuration of a run and one of its checkpoints, from which it can be opened."""
    _remove_leftovers()
    place = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    scratch = RunDir(place / run.path.resolve().name)
    scratch.path.mkdir()
    scratch.remember(**{name: value for name, value in run.birth().items() if name in ("created", "id", "code")})
    scratch.write_config(quiet(config).model_dump(mode="json"))
    copy_num_envs(run, scratch)
    if base is not None:
        scratch.checkpoints.mkdir()
        share_folder(base.path, scratch.checkpoints / base.path.name)
        share_league(run, scratch)
    return scratch


def _remove_leftovers() -> None:
    """Remove what processes left that were killed, such as a page's when it was closed. Another container may share the
    folder but not the pids, so that nothing young is removed."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = left.name.removeprefix(PREFIX).partition("-")[0]
        with suppress(OSError):
            old = left.lstat().st_mtime < time.time() - ABANDONED_SECONDS
            if old and pid.isdecimal() and not psutil.pid_exists(int(pid)):
                shutil.rmtree(left, ignore_errors=True)


def copy_num_envs(run: RunDir, other: RunDir, until: int = NEVER) -> None:
    """The changes of the number of envs of an adaptive run up to a step; from then on nothing is measured."""
    if (run.path / NUM_ENVS).is_file():
        lines = (run.path / NUM_ENVS).read_text().splitlines()
        changes = [json.loads(line) for line in lines if line.endswith("]")]
        kept = [change for change in changes if change[0] <= until]
        if until == NEVER:
            kept.append([NEVER, 1])
        (other.path / NUM_ENVS).write_text("".join(f"{json.dumps(change)}\n" for change in kept))


def share_folder(source: Path, target: Path) -> None:
    """The files of a finished checkpoint under another name: they are never written to again, so that they need no
    space of their own. On another file system they are copied."""
    shutil.copytree(source, target, copy_function=_link)


def share_league(run: RunDir, other: RunDir) -> None:
    """The past agents of a run; their ratings, which a run adds to, are copied."""
    if not (run.path / FOLDER).is_dir():
        return
    (other.path / FOLDER).mkdir()
    for path in (run.path / FOLDER).iterdir():
        if path.is_dir():
            share_folder(path, other.path / FOLDER / path.name)
        else:
            shutil.copyfile(path, other.path / FOLDER / path.name)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
