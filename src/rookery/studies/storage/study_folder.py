"""The folder of a study: its files, and how studies are found."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Iterator
from pathlib import Path

from rookery.console import printable
from rookery.errors import StudyError
from rookery.files import own_folder, replace_file
from rookery.studies.storage.storage_place import StoragePlace
from rookery.studies.storage.study_place import DATABASE, StudyRecord, check_storage, read_record, remember_storage
from rookery.studies.storage.trial_attributes import FORMAT
from rookery.training.storage.run_dir import NAME


class StudyFolder:
    """`studies/NAME/`: the configuration, the database unless it is elsewhere, and the runs of all trials."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.name = self.path.absolute().name
        self.database = self.path / DATABASE
        self.about, self.config = self.path / "study.json", self.path / "config.toml"
        self.runs, self.plots, self.workers = self.path / "runs", self.path / "plots", self.path / "workers"

    def __repr__(self) -> str:
        return f"StudyFolder({str(self.path)!r})"

    @classmethod
    def create(cls, studies_dir: Path | str, name: str, storage: str | Path | None = None) -> StudyFolder:
        """The folder of a new study, or that of the study to be continued.

        Args:
            studies_dir: The folder that holds one folder per study.
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

    @classmethod
    def find(cls, study: str | Path, studies_dir: Path | str = "studies") -> StudyFolder:
        """The study of this name in `studies_dir`, or at this path."""
        for path in (Path(studies_dir) / study, Path(study)):
            if (path / "study.json").is_file():
                return cls(path)
        names = sorted(folder.name for folder in cls.all(studies_dir))
        near = difflib.get_close_matches(str(study), names, 1)
        meant = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names[:10])}" if names else ""
        raise StudyError(f"there is no study {str(study)!r} in {printable(studies_dir)}{meant}")

    @classmethod
    def all(cls, studies_dir: Path | str = "studies") -> Iterator[StudyFolder]:
        """All studies that have begun in `studies_dir`."""
        base = Path(studies_dir)
        return (cls(path.parent) for path in sorted(base.glob("*/study.json"))) if base.is_dir() else iter(())

    # --- study.json ---------------------------------------------------------------------------------------------

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


def new_study_id() -> str:
    """A name that no other study has."""
    return uuid.uuid4().hex
