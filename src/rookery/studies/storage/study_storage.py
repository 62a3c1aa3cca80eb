"""Opens the storage of a study for reading, whatever its kind."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Protocol

from rookery.console import printable
from rookery.errors import FileError, MissingExtra
from rookery.files import open_plain
from rookery.studies.storage.stored_trials import StoredStudy


class Storage(Protocol):
    """What a kind of storage has to offer."""

    def names(self) -> list[str]:
        """The names of all studies."""

    def read(self, name: str) -> StoredStudy | None:
        """A study as it is now; None if there is none of this name."""

    def close(self) -> None: ...


def open_storage(storage: str | Path) -> Storage:
    """The storage at a URL or in a file."""
    try:
        if isinstance(storage, Path) and is_journal(storage):
            from rookery.studies.storage.journal_file import JournalFile

            return JournalFile(storage)
        from rookery.studies.storage.sql_storage import SqlStorage

        return SqlStorage(storage)
    except ImportError as error:
        raise MissingExtra(
            f"studies are read by Optuna and SQLAlchemy, which cannot be imported ({error}): "
            "pip install 'rookery[search]'"
        ) from None


def shown(storage: str | Path) -> str:
    """A storage for people: without passwords."""
    if isinstance(storage, Path):
        return printable(storage)
    head, at, tail = re.sub(r"(?<=[?&])(\w*password)=[^&]*", r"\1=...", storage).rpartition("@")
    scheme, slashes, user = head.partition("://")
    return printable(f"{scheme}{slashes}{user.partition(':')[0]}{at}{tail}")


def is_journal(path: Path) -> bool:
    """Whether a file is Optuna's journal: lines of JSON. A SQLite file that is being made is empty."""
    try:
        with os.fdopen(open_plain(Path(os.path.realpath(path)), os.O_RDONLY), "rb") as file:
            start = file.read(1)
    except (OSError, FileError):
        return False
    return start == b"{"
