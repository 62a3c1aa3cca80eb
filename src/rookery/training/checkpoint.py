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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from rookery.errors import CheckpointError, OptionError
from rookery.say import say
from rookery.training.files import sync_folder
from rookery.training.sealed import as_json, parsed, read_manifest, safetensors, verified, write_file, write_manifest
from rookery.training.tree import Tree, escape, put_together, take_apart

STATE = "state.json"
UNFINISHED = ".unfinished-"  # folders being written or removed
NAME = re.compile(r"step-(\d{12,})(?:-(\d+))?")


def save(folder: Path, tree: Tree, *, score: float | None = None) -> None:
    """Write `tree` to the new folder `folder`. If that fails, nothing has changed and nothing is left behind."""
    folder = Path(folder)
    if folder.exists():
        raise CheckpointError(f"{folder} exists already")
    values, arrays = take_apart(tree)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder.parent)
    with _workshop(folder.parent) as (beside, fd):
        files = {STATE: write_file(beside / STATE, [as_json(values)])}
        for part in tree:
            mine = {name: array for name, array in arrays.items() if name.partition(".")[0] == escape(part)}
            if mine:
                files[_arrays_of(part)] = write_file(beside / _arrays_of(part), safetensors(mine))
        write_manifest(beside, files, None if score is None or math.isnan(score) else float(score))
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
        values = parsed(folder / STATE, verified(folder / STATE, files[STATE]).read_bytes())
        if only is not None:
            values = _some(folder, values, only)
        arrays: dict[str, np.ndarray] = {}
        for name in map(_arrays_of, values):
            if name in files:
                arrays |= load_file(verified(folder / name, files[name]))
        return put_together(values, arrays)
    except OSError as error:
        raise CheckpointError(f"{error.filename or folder} cannot be read: {error.strerror or error}") from error
    except (SafetensorError, KeyError, TypeError, AttributeError) as error:  # as it was written, but not by us
        raise CheckpointError(f"{folder} does not hold a state tree: {error}") from error


class Place(NamedTuple):
    """A checkpoint among others. A second one of the same step has edition 2, and a number behind its name."""

    step: int
    edition: int
    path: Path


class Checkpoints:
    """The checkpoints of one run: the last `keep` of them, and the one with the highest score.

    The score is in the checkpoint's own manifest, so there is no second file that could disagree.
    """

    def __init__(self, folder: Path, keep: int = 3) -> None:
        if keep < 1:
            raise OptionError(f"keep should be at least 1, got {keep}")
        self.folder, self.keep = Path(folder), keep

    def save(self, step: int, tree: Tree, *, score: float | None = None) -> Path:
        """Save as the newest checkpoint, and only then remove what is no longer wanted. Later steps go as well: they
        are left from before the run was resumed at an earlier one. Disk trouble raises OSError and changes nothing."""
        twin = next((place for place in reversed(self._places()) if place.step == step), None)
        path = self.folder / f"step-{step:012d}{f'-{twin.edition + 1}' if twin else ''}"
        if score is None and twin:  # the same agent: what was measured holds for it still
            score = _score(twin.path)
        save(path, tree, score=score)
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

    def load_latest(self, only: Sequence[str] | None = None) -> tuple[int, Tree]:
        """Step and tree of the newest checkpoint that is whole."""
        return self._first_whole(self._places()[::-1], only)

    def load_best(self, only: Sequence[str] | None = None) -> tuple[int, Tree]:
        """Step and tree of the best checkpoint that is whole; where there are no scores, of the newest."""
        places = self._places()
        ranked = _ranked(places)
        return self._first_whole(ranked + [place for place in places[::-1] if place not in ranked], only)

    def _places(self) -> list[Place]:
        """All checkpoints, the newest last."""
        places = []
        with suppress(FileNotFoundError):
            for path in self.folder.iterdir():
                if match := NAME.fullmatch(path.name):
                    places.append(Place(int(match[1]), int(match[2] or 1), path))
        return sorted(places)

    def _first_whole(self, places: Iterable[Place], only: Sequence[str] | None) -> tuple[int, Tree]:
        first: CheckpointError | None = None
        for place in places:
            try:
                tree = load(place.path, only)
            except CheckpointError as error:
                say(f"{error}; looking for an earlier checkpoint")
                first = first or error
            else:
                if first:
                    say(f"using the checkpoint of step {place.step}")
                return place.step, tree
        raise CheckpointError(f"there is no whole checkpoint in {self.folder}") from first

    def _prune(self, step: int, new: Path) -> None:
        earlier = [place for place in self._places() if place.step < step]
        kept = [*earlier[max(0, len(earlier) + 1 - self.keep) :], Place(step, 1, new)]
        kept += _ranked([*earlier, kept[-1]])[:1]
        wanted = {place.path for place in kept}
        for place in self._places():
            if place.path not in wanted:
                with suppress(OSError):  # the next save tries again
                    _remove(place.path)


def _ranked(places: Iterable[Place]) -> list[Place]:
    """Those that have a score, the best first."""
    scores = {place: score for place in places if (score := _score(place.path)) is not None}
    return sorted(scores, key=lambda place: (-scores[place], place))


def _score(folder: Path) -> float | None:
    with suppress(CheckpointError, OSError, KeyError, TypeError):
        score = read_manifest(folder)["score"]
        return score if isinstance(score, float) else None
    return None


def _arrays_of(part: str) -> str:
    return f"{escape(part)}.safetensors"


def _some(folder: Path, values: Tree, only: Sequence[str]) -> Tree:
    for part in only:
        if part not in values:
            raise CheckpointError(f"{folder} has no part {part!r}; it has {', '.join(values)}")
    return {part: values[part] for part in only}


@contextmanager
def _workshop(parent: Path) -> Iterator[tuple[Path, int]]:
    """A folder to write in, and its descriptor; gone afterwards, unless it was renamed. It stays locked meanwhile: that
    tells it from one that a killed process has left."""
    beside = parent / f"{UNFINISHED}{uuid.uuid4().hex}"
    beside.mkdir()
    fd = -1
    try:
        fd = os.open(beside, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):  # not every file system has locks for folders
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield beside, fd
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    finally:
        if fd >= 0:
            os.close(fd)


def _sweep(parent: Path) -> None:
    """Remove what processes that were killed while saving have left."""
    for left in parent.glob(f"{UNFINISHED}*"):
        with suppress(OSError):  # somebody is writing it, or it is gone already
            fd = os.open(left, os.O_RDONLY | os.O_DIRECTORY)
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
