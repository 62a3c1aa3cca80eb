"""The folders that the dashboard shows, and safe paths in them.

A run is known by the name of its folder's place and its own name, `runs/CartPole-v1_ppo`, in links and in the API. A
name from outside is a single path component, and what it names is a real folder directly in a given one: neither `..`
nor a link leads anywhere else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

LONGEST_NAME = 255  # of a file, in bytes


class NotShown(LookupError):
    """There is no such thing among what the dashboard shows; the message is for the page."""


class RunFolders:
    """Folders of runs by short names.

    >>> list(RunFolders(["experiments/runs", "other/runs", "/data/zelda"]).places)
    ['runs', 'runs-2', 'zelda']
    """

    def __init__(self, folders: Iterable[str | Path]) -> None:
        self.places: dict[str, Path] = {}
        for folder in dict.fromkeys(Path(os.path.abspath(folder)) for folder in folders):
            self.places[self._new_name(folder.name or "root")] = folder

    def _new_name(self, name: str) -> str:
        number = 2
        wanted = name
        while wanted in self.places:
            wanted, number = f"{name}-{number}", number + 1
        return wanted

    def folder(self, place: str) -> Path:
        """The folder of this short name. `PLACE:STUDY` is that of the runs of a study in a given folder."""
        if place not in self.places and ":" in place:
            return self._runs_of_study(*place.split(":", 1))
        if place not in self.places:
            raise NotShown(f"there is no folder {place!r}; there are {', '.join(self.places)}")
        return self.places[place]

    def _runs_of_study(self, place: str, study: str) -> Path:
        runs = self.find(place, study) / "runs"
        if not _is_real_folder(runs):
            raise NotShown(f"there are no runs of a study {study!r} in {place!r}")
        return runs

    def find(self, place: str, name: str) -> Path:
        """The folder of a run, a study, a league or a registry. It is a folder itself, not a link to one."""
        path = self.folder(place) / checked_name(name)
        if not _is_real_folder(path):
            raise NotShown(f"there is no {name!r} in {place!r}: it may have been moved or deleted")
        return path

    def file(self, place: str, name: str, *parts: str) -> Path:
        """A regular file below the folder of a run; no folder on the way to it is a link."""
        path = self.find(place, name)
        for part in parts[:-1]:
            path = path / checked_name(part)
            if not _is_real_folder(path):
                raise NotShown(f"there is no folder {part!r} in {name!r}")
        path = path / checked_name(parts[-1])
        if not stat.S_ISREG(_mode(path)):
            raise NotShown(f"there is no file {parts[-1]!r} in {name!r}")
        return path

    def top_file(self, place: str, name: str) -> Path:
        """A regular file directly in a given folder."""
        path = self.folder(place) / checked_name(name)
        if not stat.S_ISREG(_mode(path)):
            raise NotShown(f"there is no file {name!r} in {place!r}")
        return path

    def top_files(self, ending: str) -> Iterator[tuple[str, str, Path]]:
        """Every regular file directly in a given folder whose name ends so: the place, its name, its path."""
        for place, folder in self.places.items():
            with suppress(OSError):
                for entry in list(os.scandir(folder)):
                    if entry.name.endswith(ending) and stat.S_ISREG(_mode(Path(entry.path))):
                        yield place, entry.name, Path(entry.path)

    def children(self, *places: str) -> Iterator[tuple[str, str, Path]]:
        """Every folder directly in a given one: the place, its name, its path. What cannot be read is omitted."""
        for place in places or self.places:
            try:
                entries = list(os.scandir(self.places[place]))
            except OSError:
                continue
            for entry in entries:
                if not entry.name.startswith(".") and _is_directory(entry):
                    yield place, entry.name, Path(entry.path)


def checked_name(name: str) -> str:
    """A name from outside, if it can only be that of something directly in a folder.

    >>> checked_name("..")
    Traceback (most recent call last):
    ...
    rookery.web.run_folders.NotShown: '..' is not a name
    """
    plain = name not in ("", ".", "..") and not any(sign in name for sign in ("/", "\\", "\0"))
    if not plain or len(os.fsencode(name)) > LONGEST_NAME:
        raise NotShown(f"{name[:80]!r} is not a name")
    return name


def file_stamp(path: str | Path | None) -> tuple[int, int, int] | None:
    """What changes when a file is replaced or written to; None if it is not there. A link is not followed."""
    try:
        facts = os.lstat(path) if path is not None else None
    except OSError:
        return None
    return facts and (facts.st_ino, facts.st_size, facts.st_mtime_ns)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_real_folder(path: Path) -> bool:
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):
        return 0
