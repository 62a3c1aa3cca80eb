"""Where a study is stored: found from a name, a folder, a file or the URL of a database."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rookery.console import printable
from rookery.errors import StudyError
from rookery.files import read_plain

SHOWN = 10  # names in an error message
LARGEST = 1 << 20  # bytes of study.json
URL = re.compile(r"[a-z][a-z0-9+]*://")


@dataclass(frozen=True)
class StudyPlace:
    """A storage, and the name of the study in it; None stands for the only study there."""

    storage: str | Path  # a URL, or a file
    name: str | None
    folder: Path | None = None

    @classmethod
    def find(cls, study: str | Path, studies_dir: str | Path = "studies", storage: str | None = None) -> StudyPlace:
        """The place of a study, as `open_study` takes it. The storage may not exist yet."""
        folder = _folder(study, Path(studies_dir))
        if storage is not None:
            return cls(_url_or_file(storage, Path()), str(study) if folder is None else _name(folder), folder)
        if folder is not None:
            return cls(_url_or_file(_stored(folder).get("storage") or "study.db", folder), _name(folder), folder)
        if URL.match(str(study)) or Path(study).is_file():
            return cls(_url_or_file(str(study), Path()), None)
        raise StudyError(_unknown(str(study), Path(studies_dir)))


def study_folders(studies_dir: str | Path) -> list[Path]:
    """The folders of the studies in `studies_dir`, by name."""
    try:
        return sorted(path for path in Path(studies_dir).iterdir() if _is_study(path))
    except (FileNotFoundError, NotADirectoryError):
        return []


def near_names(name: str, names: Iterable[str]) -> str:
    """Names that may have been meant, for the end of an error message."""
    known = sorted(names)
    near = difflib.get_close_matches(name, known, 3)
    listed = ", ".join(known[:SHOWN]) + (", ..." if len(known) > SHOWN else "")
    return (f"; did you mean {' or '.join(near)}? There are" if near else "; there are") + f": {listed}"


def _folder(study: str | Path, studies_dir: Path) -> Path | None:
    try:
        return next((path for path in (studies_dir / study, Path(study)) if _is_study(path)), None)
    except (OSError, ValueError):  # a name too long to be one, or a URL
        return None


def _is_study(path: Path) -> bool:
    return (path / "study.json").is_file() or (path / "study.db").is_file()


def _name(folder: Path) -> str:
    return str(_stored(folder).get("name") or folder.absolute().name)


def _stored(folder: Path) -> dict[str, str]:
    """The contents of study.json; {} if it is not there yet."""
    path = folder / "study.json"
    if not path.exists():
        return {}
    try:
        found = json.loads(read_plain(path, LARGEST))
    except (OSError, ValueError) as error:
        raise StudyError(f"{printable(path)} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise StudyError(f"{printable(path)} is damaged: it should hold an object")
    return found


def _url_or_file(storage: str, base: Path) -> str | Path:
    """A URL of a SQLite file becomes its path, so that it can be opened for reading only."""
    if storage.startswith("sqlite:///"):
        storage = storage.removeprefix("sqlite:///").partition("?")[0].removeprefix("file:")
        base = Path()
    return storage if URL.match(storage) else base / storage


def _unknown(study: str, studies_dir: Path) -> str:
    names = [path.name for path in study_folders(studies_dir)]
    where = printable(studies_dir)
    if not names:
        return (
            f"there is no study {study!r}: {where} holds no studies; `rookery search CartPole-v1 --study-name {study}` "
            "starts one, and --storage names a database of others"
        )
    return f"there is no study {study!r} in {where}{near_names(study, names)}"
