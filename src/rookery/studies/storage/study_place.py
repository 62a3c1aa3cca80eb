"""Where a study is stored: found from a name, a folder, a file or the URL of a database."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from rookery.console import printable
from rookery.errors import StudyError
from rookery.files import read_plain
from rookery.gate import Inside, Reaches, reaches
from rookery.studies.storage.study_storage import shown
from rookery.training.storage.trust import check_reach, remember_places

SHOWN = 10  # names in an error message
MOST_COMPARED = 1_000  # names, which takes up to 0.1 s
LARGEST = 1 << 20  # bytes of study.json
DATABASE = "study.db"
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
            name = str(study) if folder is None else read_record(folder).name or folder.absolute().name
            return cls(_url_or_file(storage, Path()), name, folder)
        if folder is not None:
            record = read_record(folder)
            check_storage(folder, record)
            return cls(_url_or_file(record.storage, folder), record.name or folder.absolute().name, folder)
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
    known = sorted(printable(name)[:80] for name in names)
    near = difflib.get_close_matches(name[:80], known[:MOST_COMPARED], 3)
    listed = ", ".join(known[:SHOWN]) + (", ..." if len(known) > SHOWN else "")
    return (f"; did you mean {' or '.join(near)}? There are" if near else "; there are") + f": {listed}"


def _folder(study: str | Path, studies_dir: Path) -> Path | None:
    try:
        return next((path for path in (studies_dir / study, Path(study)) if _is_study(path)), None)
    except (OSError, ValueError):  # a name too long to be one, or a URL
        return None


def _is_study(path: Path) -> bool:
    return (path / "study.json").is_file() or (path / "study.db").is_file()


class StudyRecord(BaseModel):
    """The contents of study.json: which study this is, and where its trials are."""

    model_config = ConfigDict(strict=True)

    name: Annotated[str | None, Inside("the name of the study in its database")] = None
    storage: Annotated[str, Reaches("network")] = DATABASE
    format: int = 0
    id: Annotated[str | None, Inside("it is only compared")] = None


@dataclass(frozen=True)
class RecordedStudy:
    """A study's folder as the gate sees it."""

    path: Path
    name: str
    id: str | None

    def birth(self) -> dict[str, Any]:
        return {}


def read_record(folder: Path) -> StudyRecord:
    """The contents of study.json; the usual ones if it is not there yet."""
    path = folder / "study.json"
    if not path.exists():
        return StudyRecord()
    try:
        return StudyRecord.model_validate_json(read_plain(path, LARGEST))
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise StudyError(f"{printable(path)} is damaged: {where and f'`{where}`: '}{printable(wrong['msg'])}") from None
    except OSError as error:
        raise StudyError(f"{printable(path)} cannot be read: {error}") from None


def check_storage(folder: Path, record: StudyRecord) -> None:
    """Refuse a database outside of a study's folder, unless the study was made here with it: study.json may be a
    stranger's, and a database can be anywhere."""
    if _is_inside(record.storage, folder):
        return
    owner = RecordedStudy(folder, printable(record.name or folder.name), record.id)
    check_reach(
        owner, list(reaches(record)), False, f"to open it, name the database: --storage {shown(record.storage)}"
    )


def remember_storage(folder: Path, record: StudyRecord) -> None:
    """Note for this user that the study was made here with its database."""
    if not _is_inside(record.storage, folder):
        remember_places(RecordedStudy(folder, folder.name, record.id), list(reaches(record)))


def _is_inside(storage: str, folder: Path) -> bool:
    """Whether it is a file in the study's folder, and no link to elsewhere."""
    place = _url_or_file(storage, folder)
    return isinstance(place, Path) and Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder))


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
