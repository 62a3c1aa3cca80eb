"""Writes the folder of a version: what acting, exporting and further training need of a run, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.deploy.audit import plain_values
from rookery.deploy.code_version import code_version
from rookery.files import read_plain, replace_file, sync_folder
from rookery.training.storage.checkpoint import Checkpoints, save
from rookery.training.storage.checkpoint_files import Tree
from rookery.training.storage.registry_folder import ABOUT, file_hash, files_in, sealed
from rookery.training.storage.run_dir import RunDir

UNFINISHED = ".unfinished"  # the folder of a version that is being written; there is one writer at a time
RECORDS = ("summary.json", "evaluations.jsonl", "metrics.jsonl")  # for `compare`; they decide nothing
LARGEST_RECORD = 8 << 20
FROM_BIRTH = ("created", "id", "code")  # of run.json: `code` is what trust is decided by


def write_version(run: RunDir, folder: Path, about: Mapping[str, Any], checkpoint: str = "best") -> None:
    """Make the version `folder` from a run's best or latest checkpoint. It is written beside, made read-only, and
    renamed: it is there whole or not at all."""
    beside = folder.parent / UNFINISHED
    remove_version(beside)
    beside.mkdir()
    step = _write_run(run, RunDir(beside), checkpoint)
    facts = {
        **plain_values(about),
        "run": run.name,
        "run_id": run.id,
        "checkpoint": checkpoint,
        "step": step,
        "code": code_version(),
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
    checkpoints = Checkpoints(run.checkpoints)
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
