"""The folder of a study and its study.json, and how studies are found: by a name, a folder, a file or a URL."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from rookery.console import printable
from rookery.errors import StudyError
from rookery.files import own_folder, read_plain, replace_file
from rookery.gate import Inside, Reaches, reaches
from rookery.studies.storage.storage_place import StoragePlace, shown
from rookery.studies.storage.trial_sources import near_names
from rookery.studies.storage.trial_view import FORMAT
from rookery.training.storage.run_dir import NAME
from rookery.training.storage.trust import check_reach, remember_places

LARGEST = 1 << 20  # bytes of study.json
DATABASE = "study.db"
URL = re.compile(r"[a-z][a-z0-9+]*://")


# --- study.json ---------------------------------------------------------------------------------------------------


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


# --- studies --------------------------------------------------------------------------------------------------------


class StudyFolder:
    """`studies/NAME/`: the configuration, the database unless it is elsewhere, and the runs of all trials."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.name = self.path.absolute().name
        self.database = self.path / DATABASE
        self.about, self.config = self.path / "study.json", self.path / "config.toml"
        self.runs, self.workers = self.path / "runs", self.path / "workers"

    def __repr__(self) -> str:
        return f"StudyFolder({str(self.path)!r})"

    @classmethod
    def create(cls, studies_dir: Path | str, name: str, storage: str | Path | None = None) -> StudyFolder:
        """The folder of a new study, or that of the study to be continued.

        Args:
            studies_dir: The folder that contains one folder per study.
            name: The name of the study.
            storage: A database elsewhere; without, it is study.db in the folder.

        Raises:
            StudyError: The name cannot be one, the folder cannot be made, or a study of this name has another database.
        """
        if not NAME.fullmatch(name) or ".." in name:
            raise StudyError(
                f"{name!r} cannot be the name of a study: use up to 100 letters, digits and any of _ . + = , @ -, "
                "beginning with a letter, digit or _"
            )
        folder = cls(Path(studies_dir) / name)
        folder.check_storage(storage)
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            for part in (folder.runs, folder.workers):
                own_folder(part)
        except OSError as error:
            why = error.strerror or error
            raise StudyError(f"no study can be kept in {printable(folder.path)} ({why}): give search.studies_dir a "
                             "folder that can be written") from None  # fmt: skip
        return folder

    @property
    def exists(self) -> bool:
        """Whether the study has begun: study.json is written when its database is complete."""
        return self.about.is_file()

    def read(self) -> StudyRecord:
        """What study.json says: name, storage without its password, format and id.

        Raises:
            StudyError: It is damaged, or of a newer rookery.
        """
        record = read_record(self.path)
        if record.format > FORMAT:
            raise StudyError(
                f"{printable(self.path)} was made by a newer rookery (format {record.format}; this one reads {FORMAT}):"
                " pip install -U rookery"
            )
        return record

    def write(self, place: StoragePlace, study_id: str) -> None:
        """Record that the study's database is there. Its password is not written."""
        inside = place.file is not None and place.file == self.database.absolute()
        storage = DATABASE if inside else place.url if place.file is None else str(place.file)
        record = StudyRecord(name=self.name, storage=storage, format=FORMAT, id=study_id)
        replace_file(self.about, [record.model_dump_json(indent=1).encode(), b"\n"])
        remember_storage(self.path, record)

    def place(self, storage: str | Path | None = None) -> StoragePlace:
        """The study's database: as study.json says, with the password of `storage` if that is the same URL."""
        if storage is not None:
            return StoragePlace.parse(storage)
        record = self.read()
        check_storage(self.path, record)
        return StoragePlace.parse(record.storage, self.path)

    @property
    def storage(self) -> str:
        """The study's database as a path or a URL, without its password."""
        place = self.place()
        return place.url if place.file is None else str(place.file)

    def check_storage(self, storage: str | Path | None) -> None:
        """Refuse another database than that of the study: its trials would have the runs of others."""
        if not self.exists or storage is None:
            return
        given, recorded = StoragePlace.parse(storage), StoragePlace.parse(self.read().storage, self.path)
        if given.url != recorded.url:
            raise StudyError(
                f"the study {self.name} is stored in {recorded.shown}, not in {given.shown}: leave search.storage out, "
                "or give the study another name"
            )


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


def _folder(study: str | Path, studies_dir: Path) -> Path | None:
    try:
        return next((path for path in (studies_dir / study, Path(study)) if _is_study(path)), None)
    except (OSError, ValueError):  # a name too long to be one, or a URL
        return None


def _is_study(path: Path) -> bool:
    return (path / "study.json").is_file() or (path / "study.db").is_file()


def _unknown(study: str, studies_dir: Path) -> str:
    names = [path.name for path in study_folders(studies_dir)]
    where = printable(studies_dir)
    if not names:
        return (
            f"there is no study {study!r}: {where} holds no studies; `rookery search CartPole-v1 --study-name {study}` "
            "starts one, and --storage names a database of others"
        )
    return f"there is no study {study!r} in {where}{near_names(study, names)}"
