"""Deleting runs: only folders directly in the runs folder, never one that is in use, and nothing outside."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rookery.console import printable
from rookery.errors import RookeryError
from rookery.training.storage.run_dir import RunDir


@dataclass
class Deleted:
    """What became of runs that were to be deleted."""

    names: list[str] = field(default_factory=list)
    freed: int = 0  # bytes
    kept: dict[str, str] = field(default_factory=dict)  # the reason, by name
    notes: list[str] = field(default_factory=list)


def delete_runs(runs: Sequence[RunDir], runs_dir: Path) -> Deleted:
    """Delete the folders of these runs; those that cannot or may not be deleted are kept, with the reason."""
    done = Deleted()
    for run in runs:
        try:
            why = refusal(run, runs_dir)
            if why:
                done.kept[run.name] = why
                continue
            outside = _outside_checkpoints(run)
            with run.lock():
                size = disk_usage(run.path)
                shutil.rmtree(run.path)
        except (RookeryError, OSError) as error:
            done.kept[run.name] = printable(error)
            continue
        done.names.append(run.name)
        done.freed += size
        if outside is not None:
            done.notes.append(f"the checkpoints of {run.name} are kept: they are outside, in {printable(outside)}")
    return done


def refusal(run: RunDir, runs_dir: Path) -> str:
    """Why a run's folder must not be deleted, whatever the user says; "" if it may be."""
    path = Path(os.path.abspath(run.path))
    if path.is_symlink():
        return f"{printable(run.path)} is a link that leads elsewhere; remove the link by hand"
    if run.outputs != run.path:
        return "it is a version in a registry, and others may use it"
    if path.parent.resolve() != Path(runs_dir).resolve():
        return f"it is not in {printable(runs_dir)}: give its folder with --runs-dir"
    return ""


def disk_usage(folder: Path) -> int:
    """Bytes on disk that deleting a folder frees. Links are not followed; files with a second name are not freed."""
    total = 0
    for place, _, files in os.walk(folder, followlinks=False):
        for name in files:
            found = os.lstat(os.path.join(place, name))
            total += 512 * found.st_blocks * (found.st_nlink == 1)
    return total


def _outside_checkpoints(run: RunDir) -> Path | None:
    """The folder of the run's checkpoints, if that is outside of its own."""
    try:
        outside = run.keeps_checkpoints_outside
        return run.checkpoints if outside and run.checkpoints.exists() else None
    except RookeryError:  # its config is damaged
        return None
