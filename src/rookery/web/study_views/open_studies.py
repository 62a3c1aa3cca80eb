"""The studies in the folders that the dashboard shows, each with its columns, kept while they are looked at."""

from __future__ import annotations

import os
import shlex
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from rookery.console import printable
from rookery.errors import RookeryError, StorageLost, StudyError
from rookery.studies.storage.sqlite_file import open_to_read
from rookery.studies.storage.study_folder import StudyPlace
from rookery.studies.storage.trial_sources import DAMAGED, TrialSource
from rookery.studies.storage.trial_table import TrialTable, is_journal, open_source
from rookery.web.kept import Kept
from rookery.web.run_folders import NotShown, RunFolders
from rookery.web.study_views.study_summary import summary
from rookery.web.study_views.study_threads import SlowFailures, all_within

MOST_KEPT = 64  # studies with their columns: some 10 MB each at 50,000 trials
FILE = ".db"  # the ending of a study that is a single file, as Optuna makes it
TABLES = ("studies", "trials")  # of Optuna
FRESH_SECONDS = 0.3  # readers within this time share one look at the database
LOCK_SECONDS = 5.0  # a request waits so long for another one that reads the same study
LOOK_SECONDS = 20.0  # after which a look at a study is given up
LIST_SECONDS = 4.0  # a study that takes longer is listed without its figures


class OpenStudy:
    """A study that is looked at."""

    def __init__(
        self, place: str, name: str, path: Path, source: TrialSource, failures: SlowFailures, is_costly: bool = False
    ) -> None:
        """`path` is that of the study's folder, or of the single file that it is."""
        self.place, self.name, self.path = place, name, path
        self.folder = path if path.is_dir() else None
        self.columns = TrialTable(source, LOOK_SECONDS)
        self.is_costly = is_costly  # to open: a database elsewhere, or a journal, for which Optuna is imported
        self.is_read = False
        self.cached: dict[str, tuple[Any, Any]] = {}  # by what it is: what it was made from, and it
        self._lock, self._failures = threading.Lock(), failures
        self._looked, self._with_params = -FRESH_SECONDS, False

    @property
    def given_as(self) -> str:
        """How `rookery study` names it."""
        return shlex.quote(self.name if self.folder is not None else str(self.path))

    @property
    def run_place(self) -> str:
        """The first part of the ids of its runs."""
        return f"{self.place}:{self.name}"

    @contextmanager
    def look(self, with_params: bool = True) -> Iterator[TrialTable]:
        """The columns as they are now; no other thread changes them within."""
        with self._failures.watching(self.path):
            if not self._lock.acquire(timeout=LOCK_SECONDS):
                raise StorageLost(f"the study {self.name!r} is still being read: try again later")
            try:
                self._refresh(with_params)
                yield self.columns
            except DAMAGED as error:
                why = f"{type(error).__name__}: {printable(error)[:200]}"
                raise StudyError(
                    f"the study {self.name!r} is damaged, or of another version of Optuna ({why})"
                ) from None
            finally:
                self._lock.release()

    def _refresh(self, with_params: bool) -> None:
        is_fresh = time.monotonic() - self._looked < FRESH_SECONDS
        if not is_fresh or (with_params and not self._with_params):
            self.columns.refresh(with_params or self._with_params)
            self._looked, self._with_params = time.monotonic(), with_params or self._with_params
            self.is_read = True


class OpenStudies:
    def __init__(self, folders: RunFolders) -> None:
        self._folders = folders
        self._open = Kept[tuple[str, str], OpenStudy](MOST_KEPT)
        self._failures = SlowFailures()

    def find(self, place: str, name: str) -> OpenStudy:
        """The study of this id; an error says that there is none, or that it may not be read."""
        path = self._path(place, name)
        return self._open.of((place, name), lambda: self._make(place, name, path), _mark(path))

    def rows(self) -> list[dict[str, Any]]:
        """A row for every study, by place and name; `error` says why one cannot be read."""
        found = [(place, name) for place, name, path in self._folders.children() if is_study(path)]
        found += [(place, name) for place, name, path in self._folders.top_files(FILE)]
        found.sort()
        late: dict[str, Any] | None = {}
        rows = all_within(LIST_SECONDS, [partial(self._row, place, name) for place, name in found], late)
        for at, (place, name) in enumerate(found):
            if rows[at] is late:
                rows[at] = {**_empty_row(place, name), "error": "its database has not answered yet"}
        return [row for row in rows if row is not None]

    def _path(self, place: str, name: str) -> Path:
        """The folder or the file of a study."""
        with suppress(NotShown):
            file = self._folders.top_file(place, name)
            if name.endswith(FILE) and self._is_study_file(file):
                return file
        folder = self._folders.find(place, name)
        if not is_study(folder):
            raise NotShown(f"there is no study {name!r} in {place!r}")
        return folder

    def _is_study_file(self, path: Path) -> bool:
        try:
            with self._failures.watching(("file", path)):
                return is_study_file(path)
        except (sqlite3.Error, OSError, StudyError):
            return False

    def _row(self, place: str, name: str) -> dict[str, Any] | None:
        row = _empty_row(place, name)
        try:
            study = self.find(place, name)
            if study.is_costly and not study.is_read:
                return {**row, "unread": True}
            with study.look(with_params=False) as columns:
                made = summary(columns, study.folder, time.time())
            orjson.dumps(made, option=orjson.OPT_NON_STR_KEYS)  # a stranger's attribute may be a number beyond 64 bits
        except NotShown:  # it was deleted, or is another file
            return None
        except RookeryError as error:
            return {**row, "error": str(error)}
        except Exception as error:  # noqa: BLE001 - one study does not hide the others
            return {**row, "error": f"it cannot be read ({type(error).__name__}: {printable(error)[:200]})"}
        return {**row, **{key: value for key, value in made.items() if key != "verified"}}

    def _make(self, place: str, name: str, path: Path) -> OpenStudy:
        if path.is_file():
            return OpenStudy(place, name, path, open_source(path, None), self._failures)
        where = StudyPlace.find(path)
        storage = where.storage if isinstance(where.storage, str) else self._inside(where.storage)
        is_costly = isinstance(storage, str) or is_journal(storage)
        return OpenStudy(place, name, path, open_source(storage, where.name), self._failures, is_costly)

    def _inside(self, file: Path) -> Path:
        """The file, if it is in one of the folders that are shown: study.json may name any file."""
        real = Path(os.path.realpath(file))
        for folder in self._folders.places.values():
            if real.is_relative_to(os.path.realpath(folder)):
                return real
        raise StudyError(
            f"study.json names {str(file)!r}, which is in none of the folders that are shown: start "
            f"`rookery dashboard` with --runs-dir {str(real.parent)!r} too"
        )


def is_study(folder: Path) -> bool:
    """Whether a folder contains a study, by a regular file in it."""
    for name in ("study.json", "study.db"):
        try:
            if stat.S_ISREG(os.lstat(folder / name).st_mode):
                return True
        except OSError:
            continue
    return False


def is_study_file(path: Path) -> bool:
    """Whether a file is a database of Optuna: there may be others. Raises as `open_to_read`."""
    with closing(open_to_read(path)) as database:
        found = database.execute(f"SELECT COUNT(*) FROM sqlite_master WHERE name IN {TABLES}")  # noqa: S608
        return int(found.fetchone()[0]) == len(TABLES)


def _empty_row(place: str, name: str) -> dict[str, Any]:
    return {"id": f"{place}/{name}", "place": place, "name": name, "error": None, "unread": False}


def _mark(path: Path) -> tuple[int, int] | None:
    """What is another one if a study was replaced, or its study.json names another storage: of a file itself, which
    grows, its inode alone."""
    try:
        found = os.lstat(path)
        if stat.S_ISREG(found.st_mode):
            return 0, found.st_ino
        found = os.lstat(path / "study.json")
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
