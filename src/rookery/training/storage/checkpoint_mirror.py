"""Copies of a run's checkpoints at a URL, made while the run continues: `checkpoints.mirror`.

At the URL there is a folder of the run's name, as on the disk. Object stores have no rename, so a checkpoint becomes
complete there by its last object: first its files, then the records of the run, then the manifest, which has the sizes
and hashes of all others and one of itself.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rookery.console import printable
from rookery.errors import FileError, RunError
from rookery.files import open_plain
from rookery.training.storage.checkpoint import NAME
from rookery.training.storage.checkpoint_files import MANIFEST, short_text
from rookery.training.storage.remote_run import names_in, open_place
from rookery.training.storage.run_dir import RunDir

CLOSE_SECONDS = 600.0  # for the last copy, after the run has ended
LOCAL = ("run.lock",)
FOLDERS = ("league",)  # of the run's folder, which a resumed run needs


class MirroredRun:
    def __init__(self, url: str, run: RunDir) -> None:
        self.url, self._run = url.rstrip("/"), run
        self._files, self._root = open_place(url, "checkpoints.mirror")
        self._copied: dict[str, tuple[int, int]] = {}
        self.place = ""  # the folder, known once something was copied

    def copy(self, checkpoint: Path) -> list[str]:
        """Copy a checkpoint, and remove those that the run has removed; returns what the user should know. Raises
        FileNotFoundError if the run has removed it in the meantime."""
        notes = [] if self.place else self._choose_place()
        folder = f"{self.place}/checkpoints/{checkpoint.name}"
        self._files.makedirs(folder, exist_ok=True)
        for path in sorted(checkpoint.iterdir(), key=lambda path: path.name == MANIFEST):
            if path.name == MANIFEST:
                self._copy_records()
            self._put(path, f"{folder}/{path.name}")
        self._remove_old(checkpoint.parent)
        return notes

    def _choose_place(self) -> list[str]:
        """A folder of the run's name, or with its id behind if what is there is not a copy of this run: nothing of
        others is overwritten or removed."""
        names = [self._run.name, f"{self._run.name}-{str(self._run.id)[:8]}"]
        free = next((name for name in names if self._is_ours(f"{self._root}/{name}")), None)
        if free is None:
            raise RunError(
                f"{self.url}/{names[1]} holds something else: remove it, or give checkpoints.mirror another URL"
            )
        self.place = f"{self._root}/{free}"
        self._files.makedirs(self.place, exist_ok=True)
        self._put(self._run.path / "run.json", f"{self.place}/run.json")  # from now on it is known whose copy this is
        if free == names[0]:
            return []
        return [f"{self.url}/{names[0]} is not a copy of this run: checkpoints are copied to {self.url}/{free}"]

    def _is_ours(self, place: str) -> bool:
        """Whether a folder is empty, or holds this run. One without the record of a run holds something else."""
        if not names_in(self._files, place):
            return True
        try:
            return json.loads(self._files.cat_file(f"{place}/run.json")).get("id") == self._run.id is not None
        except (FileNotFoundError, ValueError, AttributeError):
            return False

    def _copy_records(self) -> None:
        """What a resumed run reads besides its checkpoint, if it has changed."""
        top = [path for path in self._run.path.iterdir() if path.name not in LOCAL and not path.name.startswith(".")]
        inside = [path for name in FOLDERS for path in _files_in(self._run.path / name)]
        for path in [*top, *inside]:
            with suppress(FileNotFoundError):
                found = path.lstat()
                name, version = path.relative_to(self._run.path).as_posix(), (found.st_size, found.st_mtime_ns)
                if _is_own_file(found) and self._copied.get(name) != version:
                    self._files.makedirs(f"{self.place}/{name}".rpartition("/")[0], exist_ok=True)
                    self._put(path, f"{self.place}/{name}")
                    self._copied[name] = version

    def _put(self, path: Path, target: str) -> None:
        """Copy a regular file. A link is never followed: it could lead to a secret."""
        with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file, self._files.open(target, "wb") as copy:
            if not _is_own_file(os.fstat(file.fileno())):
                raise FileError(f"{printable(path)} is a second name of another file: it is not copied")
            shutil.copyfileobj(file, copy, 1 << 20)

    def _remove_old(self, here: Path) -> None:
        kept = {path.name for path in here.iterdir()}
        for name in names_in(self._files, f"{self.place}/checkpoints"):
            if NAME.fullmatch(name) and name not in kept:
                folder = f"{self.place}/checkpoints/{name}"
                with suppress(FileNotFoundError):  # never a part of it with its manifest
                    self._files.rm_file(f"{folder}/{MANIFEST}")
                self._files.rm(folder, recursive=True)


def _files_in(folder: Path) -> Iterator[Path]:
    """All files in a folder and in the folders within, without following links."""
    for parent, _, names in os.walk(folder):
        yield from (Path(parent) / name for name in names if not name.startswith("."))


def _is_own_file(found: os.stat_result) -> bool:
    """Whether it is a regular file with one name: neither a link, nor the second name of a file elsewhere."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


class CheckpointMirror:
    """Copies the newest checkpoint in a thread. While a copy is made, later ones wait, and only the last of them is
    copied. An error is reported once, until a copy has succeeded again."""

    def __init__(self, url: str, run: RunDir) -> None:
        self._copy = MirroredRun(url, run)
        self._changed = threading.Condition()
        self._next: Path | None = None
        self._busy = self._closed = self._failing = False
        self._notes: list[str] = []
        self._thread = threading.Thread(target=self._work, name="rookery mirror", daemon=True)
        self._thread.start()

    def add(self, checkpoint: Path) -> None:
        """Copy this checkpoint soon; returns at once."""
        with self._changed:
            self._next = checkpoint
            self._changed.notify_all()

    def take_notes(self) -> list[str]:
        """What the user should know, since the last call."""
        with self._changed:
            notes, self._notes = self._notes, []
            return notes

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Wait for the last copy."""
        with self._changed:
            done = self._changed.wait_for(lambda: self._next is None and not self._busy, seconds)
            if not done:
                self._notes.append(f"the last checkpoint was not copied to {self._copy.url} within {seconds:g} s")
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._next is not None or self._closed)
                if self._closed:
                    return
                checkpoint, self._next, self._busy = self._next, None, True
            assert checkpoint is not None
            self._try(checkpoint)

    def _try(self, checkpoint: Path) -> None:
        try:
            notes, self._failing = self._copy.copy(checkpoint), False
        except Exception as error:  # noqa: BLE001 - of a network, a server or a library: the run continues
            if isinstance(error, FileNotFoundError) and not checkpoint.exists():
                return  # the run has a later one by now
            notes = [] if self._failing else [f"{checkpoint.name} was not copied to {self._copy.url} "
                                              f"({short_text(error)}); the next ones will be tried"]  # fmt: skip
            self._failing = True
        with self._changed:
            self._notes += notes


@contextmanager
def open_mirror(url: str | None, run: RunDir) -> Iterator[CheckpointMirror | None]:
    """The mirror of a run; None without a URL. In the end, the last copy is waited for."""
    if url is None:
        yield None
        return
    mirror = CheckpointMirror(url, run)
    try:
        yield mirror
    finally:
        mirror.close()
