"""Tags of runs, and which are hidden: one file of the dashboard's own in the user's state folder.

Nothing is written to the folders that are shown: they may be mounted, read-only, or somebody else's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.errors import OptionError
from rookery.files import SAFE, read_plain, wait_for_lock
from rookery.training.storage.run_record import as_object
from rookery.user_dirs import read_own, state_folder, write_own
from rookery.web.dashboard_state import DashboardState
from rookery.web.run_folders import RunFolders, file_stamp

FILE = "dashboard-marks.json"
MOST_TAGS, LONGEST_TAG = 20, 40  # of a run; characters
MOST_MARKED = 50_000  # runs


@dataclass(frozen=True)
class Mark:
    """What is marked on one run; `run_id` tells it from a later run of the same name."""

    tags: tuple[str, ...] = ()
    hidden: bool = False
    run_id: str | None = None


class Marks:
    """Tags and hidden runs of the folders that are shown. Several dashboards may change them at the same time.

    >>> Marks(RunFolders(["runs"])).of("runs", "no-such-run")
    ((), False)
    """

    def __init__(self, folders: RunFolders) -> None:
        self._folders = folders
        state = state_folder("dashboard")
        self._file = None if state is None else state / FILE
        self._stamp: object = ()
        self._known: dict[str, Mark] = {}

    @property
    def stamp(self) -> tuple[int, ...] | None:
        """Differs after every change, of this dashboard or of another."""
        return file_stamp(self._file)

    def of(self, place: str, name: str) -> tuple[tuple[str, ...], bool]:
        """The tags of a run, and whether it is hidden."""
        known = self._current()
        if not known:
            return (), False
        path = self._folders.folder(place) / name
        mark = known.get(str(path))
        if mark is None or mark.run_id != _run_id(path):
            return (), False
        return mark.tags, mark.hidden

    def set_tags(self, place: str, name: str, tags: Any) -> None:
        """Replace the tags of a run."""
        path = self._folders.find(place, name)
        self._change(path, tags=checked_tags(tags), hidden=self.of(place, name)[1])

    def set_hidden(self, place: str, name: str, hidden: Any) -> None:
        """Hide a run in tables, or show it again."""
        if not isinstance(hidden, bool):
            raise OptionError(f"hidden should be true or false, got {hidden!r:.60}")
        path = self._folders.find(place, name)
        self._change(path, tags=self.of(place, name)[0], hidden=hidden)

    def _change(self, path: Path, tags: tuple[str, ...], hidden: bool) -> None:
        if self._file is None:
            raise OptionError("marks have no place: set ROOKERY_STATE to a folder of your own")
        with _locked(self._file.with_suffix(".lock")):
            marks = dict(self._current())
            marks.pop(str(path), None)
            if tags or hidden:
                marks[str(path)] = Mark(tags, hidden, _run_id(path))
            if len(marks) > MOST_MARKED:
                raise OptionError(f"at most {MOST_MARKED} runs can be marked: remove tags from some")
            write_own(self._file, json.dumps({name: vars(mark) for name, mark in marks.items()}).encode())

    def _current(self) -> dict[str, Mark]:
        stamp = self.stamp
        if stamp != self._stamp:
            self._known, self._stamp = _read(self._file), stamp
        return self._known


def marks_of(state: DashboardState) -> Marks:
    """The tags and hidden runs of this dashboard."""
    found: Marks = state.part("marks", lambda: Marks(state.folders))
    return found


def checked_tags(tags: Any) -> tuple[str, ...]:
    """A few short words, each once.

    >>> checked_tags([" good ", "good", "paper"])
    ('good', 'paper')
    """
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise OptionError(f"tags should be a list of texts, got {tags!r:.60}")
    found = tuple(dict.fromkeys(tag.strip() for tag in tags))
    if len(found) > MOST_TAGS:
        raise OptionError(f"a run can have up to {MOST_TAGS} tags, got {len(found)}")
    for tag in found:
        if not tag or len(tag) > LONGEST_TAG or not tag.isprintable():
            raise OptionError(f"a tag should have 1 to {LONGEST_TAG} printable characters, got {tag!r:.60}")
    return found


def _read(file: Path | None) -> dict[str, Mark]:
    """The marks in the file; those that cannot be read are omitted."""
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(read_own(file)) if file is not None else {}
        return {name: mark for name, value in dict(found).items() if (mark := _mark(value)) is not None}
    return {}


def _mark(value: Any) -> Mark | None:
    try:
        run_id = value["run_id"]
        return Mark(checked_tags(value["tags"]), value["hidden"] is True, run_id if isinstance(run_id, str) else None)
    except (OptionError, KeyError, TypeError):
        return None


def _run_id(path: Path) -> str | None:
    """The id of the run that is in a folder now."""
    with suppress(OSError):
        found = as_object(read_plain(path / "run.json", 1 << 16)).get("id")
        return found if isinstance(found, str) else None
    return None


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    handle = os.open(file, os.O_RDWR | os.O_CREAT | SAFE, 0o600)
    try:
        wait_for_lock(handle)
        yield
    finally:
        os.close(handle)
