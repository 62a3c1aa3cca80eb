"""Checkpoints: state trees in folders that are complete or do not exist.

A checkpoint's folder contains

    NAME.safetensors   the arrays of the tree's top-level part NAME, by their dotted path; one file per part, so that
                       the agent can be read without the replay buffer
    state.json         the tree itself, with null in entry of each array
    manifest.json      the version, the score, and size and sha256 of every other file; with a sha256 of itself

It is written under another name in the same folder, synced, and renamed. Nothing here reads or writes a pickle.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from safetensors.numpy import load_file

from rookery.config.layers import LARGEST_AGENT
from rookery.console import printable, say
from rookery.errors import CheckpointError, FileError, OptionError
from rookery.files import open_folder, own_folder, sync_folder, try_lock
from rookery.training.storage.checkpoint_files import (
    MALFORMED,
    MANIFEST,
    Tree,
    as_json,
    escape,
    join_arrays,
    parse_json,
    read_contents,
    read_manifest,
    safetensors,
    short_text,
    split_arrays,
    verified_path,
    write_file,
    write_manifest,
)

STATE = "state.json"
UNFINISHED = ".unfinished-"  # folders being written or removed
LARGEST_STATE = 128 << 20  # bytes: as LARGEST_AGENT, of a file that is read before its contents are checked
ABANDONED_SECONDS = 86400.0  # nobody saves for a day
NAME = re.compile(r"step-([0-9]{12,18})(?:-([0-9]{1,9}))?")
Check = Callable[[Tree], None]


def save(folder: Path, tree: Tree, *, score: float | None = None, run: str | None = None, parents: bool = True) -> None:
    """Write `tree` to the new folder `folder`, as a checkpoint of the run with this id. If that fails, nothing has
    changed and no file is left. Without `parents`, the folder around that of all checkpoints must exist."""
    folder = Path(folder)
    if os.path.lexists(folder):
        raise CheckpointError(f"{printable(folder)} exists already")
    values, arrays = split_arrays(tree)
    own_folder(folder.parent, parents)
    prefix = UNFINISHED if run is None else f"{UNFINISHED}{run}-"
    _remove_leftovers(folder.parent, prefix)
    with _temporary_folder(folder.parent, prefix) as (beside, fd):
        files = {STATE: write_file(beside / STATE, [as_json(values)])}
        for part in tree:
            mine = {name: array for name, array in arrays.items() if name.partition(".")[0] == escape(part)}
            if mine:
                files[_arrays_file(part)] = write_file(beside / _arrays_file(part), safetensors(mine))
        _check_sizes(files)
        write_manifest(beside, files, None if score is None or math.isnan(score) else float(score), run)
        if fd is not None:
            os.fsync(fd)
        beside.rename(folder)
        try:
            sync_folder(folder.parent)
        except BaseException:  # it might be lost in a power cut: undo the rename, so that the error is true
            folder.rename(beside)
            raise


def agent_digest(agent: Tree) -> str:
    """The hash of an agent's arrays, as it is in the manifest of a checkpoint with this part "agent"."""
    digest = hashlib.sha256()
    for part in safetensors(split_arrays({"agent": agent})[1]):
        digest.update(part)
    return digest.hexdigest()


def saved_digest(folder: Path) -> str | None:
    """The same of a checkpoint that is there."""
    files = _manifest_value(folder, "files")
    return files[_arrays_file("agent")]["sha256"] if files and _arrays_file("agent") in files else None


def set_score(folder: Path, score: float) -> None:
    """Give a checkpoint a score that was not known when it was saved: its manifest is replaced at once."""
    manifest = read_manifest(folder)
    with _temporary_folder(folder.parent) as (beside, _):
        write_manifest(beside, manifest["files"], float(score), manifest.get("run"))
        (beside / MANIFEST).replace(folder / MANIFEST)
        sync_folder(folder)
    beside.rmdir()


def load(folder: Path, only: Sequence[str] | None = None) -> Tree:
    """The tree saved in `folder`, or some of its top-level parts. The hash of every file is checked before it is used;
    a CheckpointError names the file that is damaged."""
    folder = Path(folder)
    try:
        files = read_manifest(folder)["files"]
        values = parse_json(
            folder / STATE, read_contents(verified_path(folder / STATE, files[STATE], LARGEST_STATE), LARGEST_STATE)
        )
        if only is not None:
            values = _select_parts(folder, values, only)
        arrays: dict[str, np.ndarray] = {}
        for name in map(_arrays_file, values):
            if name in files:
                arrays |= load_file(verified_path(folder / name, files[name], _max_bytes(name)))
        return join_arrays(values, arrays)
    except OSError as error:
        entry = printable(error.filename or folder)
        raise CheckpointError(f"{entry} cannot be read: {error.strerror or error}") from error
    except CheckpointError:
        raise
    except MALFORMED as error:  # undamaged, but not written by rookery
        raise CheckpointError(f"{printable(folder)} does not hold a state tree: {short_text(error)}") from error


class CheckpointEntry(NamedTuple):
    """A checkpoint in a folder of them. A second one of the same step has edition 2, and a number behind its name."""

    step: int
    edition: int
    path: Path


class Checkpoints:
    """The checkpoints of one run: the last `keep` of them, the one with the highest score and, within a budget of MB,
    earlier ones, which thin out with their distance from the last.

    The score is in the checkpoint's own manifest, so there is no second file that could disagree. So is the run's id:
    in a folder that is not the run's own, only checkpoints with this id are ever removed.
    """

    def __init__(
        self, folder: Path, keep: int = 3, run: str | None = None, own: bool = True, budget: float = 0.0
    ) -> None:
        """`run` is the run's id; `own`: no other run writes to the folder."""
        if keep < 1:
            raise OptionError(f"keep should be an integer >= 1, got {keep}")
        self.folder, self.keep, self.run, self.own, self.budget = Path(folder), keep, run, own, budget
        self.held: int | None = (
            None  # the step of a checkpoint that waits for its score, and is not removed in the meantime
        )

    def save(self, step: int, tree: Tree, *, score: float | None = None) -> Path:
        """Save as the newest checkpoint, and only then remove old ones. Those of later steps are removed as well: they
        are from before the run was resumed at an earlier step. A disk error raises OSError and changes nothing."""
        same = next((entry for entry in reversed(self.entries()) if entry.step == step), None)
        path = self.folder / f"step-{step:012d}{f'-{same.edition + 1}' if same else ''}"
        if score is None and same:  # the same agent, so its score is valid here too
            score = _score(same.path)
        save(path, tree, score=score, run=self.run, parents=not self.own)  # its own folder is never made again
        self._prune(step, path)
        return path

    def set_score(self, step: int, score: float) -> Path | None:
        """Give the checkpoint of this step its score; None if there is none. A disk error raises OSError."""
        entry = next((entry for entry in reversed(self.entries()) if entry.step == step), None)
        if entry is None:
            return None
        set_score(entry.path, score)
        return entry.path

    def steps(self) -> list[int]:
        """Steps with a checkpoint, in ascending order."""
        return sorted({entry.step for entry in self.entries()})

    def remove_after(self, step: int) -> None:
        """Remove the checkpoints of later steps."""
        for entry in self.entries():
            if entry.step > step and self._is_own(entry.path):
                _remove(entry.path)

    def latest(self) -> Path | None:
        """The newest checkpoint."""
        return next((entry.path for entry in reversed(self.entries())), None)

    def best(self) -> tuple[CheckpointEntry, float] | None:
        """The checkpoint with the highest score, the earliest of equal ones, and its score; None if none has one."""
        entry = next(iter(_ranked(self.entries())), None)
        score = None if entry is None else _score(entry.path)
        return None if entry is None or score is None else (entry, score)

    def load_latest(self, only: Sequence[str] | None = None, check: Check = lambda tree: None) -> tuple[int, Tree]:
        """Step and tree of the newest valid checkpoint for which `check` raises no CheckpointError."""
        return self._first_valid(self.entries()[::-1], only, check)

    def load_best(self, only: Sequence[str] | None = None, check: Check = lambda tree: None) -> tuple[int, Tree]:
        """As `load_latest`, of the best checkpoint; if there are no scores, of the newest."""
        entries = self.entries()
        ranked = _ranked(entries)
        return self._first_valid(ranked + [entry for entry in entries[::-1] if entry not in ranked], only, check)

    def entries(self) -> list[CheckpointEntry]:
        """All checkpoints, the newest last."""
        try:
            matches = [(NAME.fullmatch(path.name), path) for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise FileError(f"{printable(self.folder)} cannot be read: {error.strerror}") from None
        return sorted(CheckpointEntry(int(match[1]), int(match[2] or 1), path) for match, path in matches if match)

    def _first_valid(
        self, entries: Iterable[CheckpointEntry], only: Sequence[str] | None, check: Check
    ) -> tuple[int, Tree]:
        first: CheckpointError | None = None
        for entry in entries:
            try:
                tree = load(entry.path, only)
                check(tree)
            except CheckpointError as error:
                say(f"{error}; looking for an earlier checkpoint")
                first = first or error
            else:
                if first:
                    say(f"using the checkpoint of step {entry.step}")
                return entry.step, tree
        why = f": {first}" if first else ""
        raise CheckpointError(f"there is no valid checkpoint in {printable(self.folder)}{why}") from first

    def _prune(self, step: int, new: Path) -> None:
        earlier = [entry for entry in self.entries() if entry.step < step]
        kept = [*earlier[max(0, len(earlier) + 1 - self.keep) :], CheckpointEntry(step, 1, new)]
        kept += self._thinned(earlier, step, new) + _ranked([*earlier, kept[-1]])[:1]
        kept += [entry for entry in earlier if entry.step == self.held]
        wanted = {entry.path for entry in kept}
        for entry in self.entries():
            if entry.path not in wanted and self._is_own(entry.path):
                with suppress(OSError):  # the next save tries again
                    _remove(entry.path)

    def _thinned(self, earlier: list[CheckpointEntry], step: int, new: Path) -> list[CheckpointEntry]:
        """Those of the earlier ones for which there is space, if each takes as much as the new one."""
        if not self.budget:
            return []
        size = sum(file.stat().st_size for file in new.iterdir())
        left = thinned([entry.step for entry in earlier], step, max(0, int(self.budget * 1e6 / size) - 1))
        return [entry for entry in earlier if entry.step in left]

    def _is_own(self, path: Path) -> bool:
        """Whether this run wrote a checkpoint. In its own folder, checkpoints without a run's id are its own too."""
        if path.is_symlink() or not path.is_dir():  # opening a pipe would wait for ever
            return False
        author = _manifest_value(path, "run")
        return author == self.run or (author is None and self.own)


def agents_of(run: str, folder: Path) -> Checkpoints:
    """The checkpoints in the folder of a run of this name, for its agent; there is at least one."""
    checkpoints = Checkpoints(folder)
    if checkpoints.latest() is None:
        raise CheckpointError(
            f"{run} has no checkpoint yet, so there is no agent: wait for the first one while the run continues; "
            f"if it has ended, `rookery resume {run}` trains on"
        )
    return checkpoints


def thinned(steps: Sequence[int], last: int, most: int) -> set[int]:
    """At most so many steps before the last one, dense near it and ever fewer before: while there are too many, the one
    goes whose neighbours are closest to each other for their distance from the last.

    >>> sorted(thinned(range(0, 1000, 10), 1000, 8))
    [0, 640, 800, 880, 920, 960, 980, 990]
    """
    kept = sorted(set(steps))
    while len(kept) > most:
        inner = range(1, len(kept) - 1)
        if not inner:
            kept.pop(0)
            continue
        kept.pop(min(inner, key=lambda k: (kept[k + 1] - kept[k - 1]) / (last - kept[k])))
    return set(kept)


def _ranked(entries: Iterable[CheckpointEntry]) -> list[CheckpointEntry]:
    """Entries with a score, the best first."""
    scores = {entry: score for entry in entries if (score := _score(entry.path)) is not None}
    return sorted(scores, key=lambda entry: (-scores[entry], entry))


def _score(folder: Path) -> float | None:
    score = _manifest_value(folder, "score")
    return score if isinstance(score, float) else None


def _manifest_value(folder: Path, name: str) -> Any:
    """A value in a checkpoint's manifest; None if it is not there, or the manifest is damaged."""
    with suppress(CheckpointError, OSError, KeyError, TypeError):
        return read_manifest(folder)[name]
    return None


def _arrays_file(part: str) -> str:
    return f"{escape(part)}.safetensors"


def _check_sizes(files: dict[str, Any]) -> None:
    """Refuse to write files that are too large to be read again."""
    for name, most in ((STATE, LARGEST_STATE), (_arrays_file("agent"), LARGEST_AGENT)):
        if files.get(name, {"bytes": 0})["bytes"] > most:
            raise CheckpointError(f"{name} would have {files[name]['bytes']:,} bytes, and at most {most:,} are allowed")


def _max_bytes(name: str) -> int:
    """How many bytes a file of arrays may have: what fits into memory or, for an agent's nets, far less."""
    return LARGEST_AGENT if name == _arrays_file("agent") else psutil.virtual_memory().total


def _select_parts(folder: Path, values: Tree, only: Sequence[str]) -> Tree:
    for part in only:
        if part not in values:
            raise CheckpointError(
                f"{printable(folder)} has no part {part!r}; it has {', '.join(map(printable, values))}"
            )
    return {part: values[part] for part in only}


@contextmanager
def _temporary_folder(parent: Path, prefix: str = UNFINISHED) -> Iterator[tuple[Path, int | None]]:
    """A folder to write in, and its file descriptor; removed on errors. It is locked meanwhile: that distinguishes it
    from one that a killed process has left. Windows has no descriptors of folders: there its age tells."""
    beside = parent / f"{prefix}{uuid.uuid4().hex}"
    beside.mkdir()
    fd: int | None = None
    try:
        fd = open_folder(beside)
        if fd is not None:
            with suppress(OSError):  # not every file system has locks for folders
                try_lock(fd)
        yield beside, fd
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    finally:
        if fd is not None:
            os.close(fd)


def _remove_leftovers(parent: Path, prefix: str = UNFINISHED) -> None:
    """Remove folders with this prefix that processes left which were killed while saving."""
    for left in parent.glob(f"{prefix}*"):
        with suppress(OSError):  # it is being written, removed already, or a link
            fd = open_folder(left)
            if fd is None:
                if left.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                    shutil.rmtree(left, ignore_errors=True)
                continue
            try:
                try_lock(fd)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(fd)


def _remove(folder: Path) -> None:
    """Remove a checkpoint, never leaving a part of it under its name."""
    beside = folder.with_name(f"{UNFINISHED}{uuid.uuid4().hex}")
    folder.rename(beside)
    shutil.rmtree(beside, ignore_errors=True)
