"""Checkpoints: state trees in folders that are whole or not there.

A checkpoint's folder holds

    NAME.safetensors   the arrays of the tree's top-level part NAME, by their dotted path; a file for each part, so that
                       the agent can be read without the replay
    state.json         the tree itself, with null in place of each array
    manifest.json      the version, the score, and size and sha256 of every other file; sealed by a sha256 of itself

It is written under another name beside its place, synced, and renamed. Nothing here reads or writes a pickle.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from safetensors.numpy import load_file

from rookery.console import printable, say
from rookery.errors import CheckpointError, FileError, OptionError
from rookery.files import own_folder, sync_folder
from rookery.training.storage.checkpoint_files import (
    MALFORMED,
    as_json,
    parse_json,
    read_contents,
    read_manifest,
    safetensors,
    short_text,
    verified_path,
    write_file,
    write_manifest,
)
from rookery.training.storage.state_tree import Tree, escape, join_arrays, split_arrays

STATE = "state.json"
UNFINISHED = ".unfinished-"  # folders being written or removed
LARGEST_STATE, LARGEST_AGENT = 128 << 20, 2 << 30  # bytes, of what is read before anything is known about it
NAME = re.compile(r"step-([0-9]{12,18})(?:-([0-9]{1,9}))?")
Check = Callable[[Tree], None]


def save(folder: Path, tree: Tree, *, score: float | None = None, run: str | None = None) -> None:
    """Write `tree` to the new folder `folder`, as a checkpoint of the run with this id. If that fails, nothing has
    changed and nothing is left behind."""
    folder = Path(folder)
    if os.path.lexists(folder):
        raise CheckpointError(f"{printable(folder)} exists already")
    values, arrays = split_arrays(tree)
    own_folder(folder.parent)
    prefix = UNFINISHED if run is None else f"{UNFINISHED}{run}-"
    _sweep(folder.parent, prefix)
    with _workshop(folder.parent, prefix) as (beside, fd):
        files = {STATE: write_file(beside / STATE, [as_json(values)])}
        for part in tree:
            mine = {name: array for name, array in arrays.items() if name.partition(".")[0] == escape(part)}
            if mine:
                files[_arrays_of(part)] = write_file(beside / _arrays_of(part), safetensors(mine))
        _check_sizes(files)
        write_manifest(beside, files, None if score is None or math.isnan(score) else float(score), run)
        os.fsync(fd)
        beside.rename(folder)
        try:
            sync_folder(folder.parent)
        except BaseException:  # it might be gone after a power cut: take it back, so that the error is true
            folder.rename(beside)
            raise


def load(folder: Path, only: Sequence[str] | None = None) -> Tree:
    """The tree saved in `folder`, or some of its top-level parts. Every byte that is used is checked by its hash first;
    a CheckpointError names the file that is damaged."""
    folder = Path(folder)
    try:
        files = read_manifest(folder)["files"]
        values = parse_json(
            folder / STATE, read_contents(verified_path(folder / STATE, files[STATE], LARGEST_STATE), LARGEST_STATE)
        )
        if only is not None:
            values = _some(folder, values, only)
        arrays: dict[str, np.ndarray] = {}
        for name in map(_arrays_of, values):
            if name in files:
                arrays |= load_file(verified_path(folder / name, files[name], _most(name)))
        return join_arrays(values, arrays)
    except OSError as error:
        place = printable(error.filename or folder)
        raise CheckpointError(f"{place} cannot be read: {error.strerror or error}") from error
    except CheckpointError:
        raise
    except MALFORMED as error:  # as it was written, but not by us
        raise CheckpointError(f"{printable(folder)} does not hold a state tree: {short_text(error)}") from error


class CheckpointEntry(NamedTuple):
    """A checkpoint among others. A second one of the same step has edition 2, and a number behind its name."""

    step: int
    edition: int
    path: Path


class Checkpoints:
    """The checkpoints of one run: the last `keep` of them, and the one with the highest score.

    The score is in the checkpoint's own manifest, so there is no second file that could disagree. So is the run's id:
    in a folder that is not the run's own, only what has it is ever removed.
    """

    def __init__(self, folder: Path, keep: int = 3, run: str | None = None, own: bool = True) -> None:
        """`run` is the run's id; `own` says that nobody else writes to the folder."""
        if keep < 1:
            raise OptionError(f"keep should be at least 1, got {keep}")
        self.folder, self.keep, self.run, self.own = Path(folder), keep, run, own

    def save(self, step: int, tree: Tree, *, score: float | None = None) -> Path:
        """Save as the newest checkpoint, and only then remove what is no longer wanted. Later steps go as well: they
        are left from before the run was resumed at an earlier one. Disk trouble raises OSError and changes nothing."""
        twin = next((place for place in reversed(self._places()) if place.step == step), None)
        path = self.folder / f"step-{step:012d}{f'-{twin.edition + 1}' if twin else ''}"
        if score is None and twin:  # the same agent: what was measured holds for it still
            score = _score(twin.path)
        save(path, tree, score=score, run=self.run)
        self._prune(step, path)
        return path

    def steps(self) -> list[int]:
        """Steps of which there is a checkpoint, in ascending order."""
        return sorted({place.step for place in self._places()})

    def latest(self) -> Path | None:
        """The newest checkpoint."""
        return next((place.path for place in reversed(self._places())), None)

    def best(self) -> Path | None:
        """The checkpoint with the highest score, the earliest of equal ones; None if none has a score."""
        return next((place.path for place in _ranked(self._places())), None)

    def load_latest(self, only: Sequence[str] | None = None, check: Check = lambda tree: None) -> tuple[int, Tree]:
        """Step and tree of the newest checkpoint that is whole, and of which `check` raises no CheckpointError."""
        return self._first_whole(self._places()[::-1], only, check)

    def load_best(self, only: Sequence[str] | None = None, check: Check = lambda tree: None) -> tuple[int, Tree]:
        """As `load_latest`, of the best checkpoint; where there are no scores, of the newest."""
        places = self._places()
        ranked = _ranked(places)
        return self._first_whole(ranked + [place for place in places[::-1] if place not in ranked], only, check)

    def _places(self) -> list[CheckpointEntry]:
        """All checkpoints, the newest last."""
        try:
            matches = [(NAME.fullmatch(path.name), path) for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise FileError(f"{printable(self.folder)} cannot be read: {error.strerror}") from None
        return sorted(CheckpointEntry(int(match[1]), int(match[2] or 1), path) for match, path in matches if match)

    def _first_whole(
        self, places: Iterable[CheckpointEntry], only: Sequence[str] | None, check: Check
    ) -> tuple[int, Tree]:
        first: CheckpointError | None = None
        for place in places:
            try:
                tree = load(place.path, only)
                check(tree)
            except CheckpointError as error:
                say(f"{error}; looking for an earlier checkpoint")
                first = first or error
            else:
                if first:
                    say(f"using the checkpoint of step {place.step}")
                return place.step, tree
        why = f": {first}" if first else ""
        raise CheckpointError(f"there is no whole checkpoint in {printable(self.folder)}{why}") from first

    def _prune(self, step: int, new: Path) -> None:
        earlier = [place for place in self._places() if place.step < step]
        kept = [*earlier[max(0, len(earlier) + 1 - self.keep) :], CheckpointEntry(step, 1, new)]
        kept += _ranked([*earlier, kept[-1]])[:1]
        wanted = {place.path for place in kept}
        for place in self._places():
            if place.path not in wanted and self._is_mine(place.path):
                with suppress(OSError):  # the next save tries again
                    _remove(place.path)

    def _is_mine(self, path: Path) -> bool:
        """Whether this run wrote a checkpoint. In its own folder, so did those who tell nothing of that."""
        if path.is_symlink() or not path.is_dir():  # a pipe would keep who removes it waiting
            return False
        author = _fact(path, "run")
        return author == self.run or (author is None and self.own)


def _ranked(places: Iterable[CheckpointEntry]) -> list[CheckpointEntry]:
    """Those that have a score, the best first."""
    scores = {place: score for place in places if (score := _score(place.path)) is not None}
    return sorted(scores, key=lambda place: (-scores[place], place))


def _score(folder: Path) -> float | None:
    score = _fact(folder, "score")
    return score if isinstance(score, float) else None


def _fact(folder: Path, name: str) -> Any:
    """What a checkpoint's manifest says of it; None if it says nothing, or is damaged."""
    with suppress(CheckpointError, OSError, KeyError, TypeError):
        return read_manifest(folder)[name]
    return None


def _arrays_of(part: str) -> str:
    return f"{escape(part)}.safetensors"


def _check_sizes(files: dict[str, Any]) -> None:
    """Refuse to write what nobody would read again."""
    for name, most in ((STATE, LARGEST_STATE), (_arrays_of("agent"), LARGEST_AGENT)):
        if files.get(name, {"bytes": 0})["bytes"] > most:
            raise CheckpointError(f"{name} would have {files[name]['bytes']:,} bytes, and {most:,} are the most")


def _most(name: str) -> int:
    """How many bytes a file of arrays may have: what fits into memory or, of an agent's nets, far less."""
    return LARGEST_AGENT if name == _arrays_of("agent") else psutil.virtual_memory().total


def _some(folder: Path, values: Tree, only: Sequence[str]) -> Tree:
    for part in only:
        if part not in values:
            raise CheckpointError(
                f"{printable(folder)} has no part {part!r}; it has {', '.join(map(printable, values))}"
            )
    return {part: values[part] for part in only}


@contextmanager
def _workshop(parent: Path, prefix: str = UNFINISHED) -> Iterator[tuple[Path, int]]:
    """A folder to write in, and its descriptor; gone afterwards, unless it was renamed. It stays locked meanwhile: that
    tells it from one that a killed process has left."""
    beside = parent / f"{prefix}{uuid.uuid4().hex}"
    beside.mkdir()
    fd = -1
    try:
        fd = os.open(beside, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        with suppress(OSError):  # not every file system has locks for folders
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield beside, fd
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    finally:
        if fd >= 0:
            os.close(fd)


def _sweep(parent: Path, prefix: str = UNFINISHED) -> None:
    """Remove what processes that were killed while saving have left, under names that begin so."""
    for left in parent.glob(f"{prefix}*"):
        with suppress(OSError):  # somebody is writing it, it is gone already, or it is a link
            fd = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(fd)


def _remove(folder: Path) -> None:
    """Remove a checkpoint, never leaving half of one under its name."""
    beside = folder.with_name(f"{UNFINISHED}{uuid.uuid4().hex}")
    folder.rename(beside)
    shutil.rmtree(beside, ignore_errors=True)
