"""Makes or opens the database of a study: one process at a time, so that two searches may start at one moment. Which
settings may differ between the searches of one study: those that do not change what a trial's value means."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import optuna

from rookery.config.inputs import to_toml
from rookery.config.layers import rename_old_keys
from rookery.config.schema import RunConfig
from rookery.console import printable
from rookery.errors import StorageLost, StudyError
from rookery.files import open_plain, replace_file, try_lock
from rookery.studies.space.dimensions import flat
from rookery.studies.storage.patient_storage import Patience, PatientStorage
from rookery.studies.storage.storage_place import StoragePlace
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.trial_view import FORMAT, STUDY_CONFIG, STUDY_FORMAT, STUDY_ID

OPENING_SECONDS = 60.0  # a wrong host or port is reported sooner than a server that worked is given up
ADVISORY_LOCK = 7667673  # a number that no other program locks in PostgreSQL
FREE = {
    "name", "runs_dir", "workers", "backend", "start_method", "device", "groups", "step_timeout", "on_failure",
    "max_restarts", "on_out_of_memory", "devices",
    "search.n_trials", "search.study_name", "search.studies_dir", "search.storage", "search.jobs",
    "search.timeout", "search.sampler", "search.seed", "search.constraints", "search.enqueue", "search.verify",
    "search.verify_seeds", "search.pruner", "search.trial_timeout", "search.trial_memory", "search.trial_gpu_memory",
    "search.max_failures",
}  # fmt: skip
FREE_SECTIONS = ("monitor.", "checkpoints.", "search.population.")
WHOLE = ("search.space", "world_options", "tables")  # tables whose keys have dots, or are the world's own
SHOWN = 5


def open_study_storage(
    folder: StudyFolder, storage: str | None, config: RunConfig | None, directions: Sequence[str], patience: float
) -> PatientStorage:
    """The study's storage. It is checked that the study can be continued, or it is made."""
    folder.check_storage(storage)
    place = folder.place(storage)
    place.check_driver()
    place.check_drive()
    if place.file is not None:
        _make_file(folder, place.file)
    waiting = Patience(place, min(patience, OPENING_SECONDS))
    with one_at_a_time(waiting):
        opened = PatientStorage(waiting)
        try:
            _open_study(folder, place, opened, config, directions)
        except BaseException:
            opened.close()
            raise
    waiting.seconds, opened.complete = patience, True
    return opened


@contextmanager
def one_at_a_time(patience: Patience) -> Iterator[None]:
    """Other processes that would make or change the study wait in the meantime."""
    if patience.place.file is not None:
        with _file_lock(patience.place.file, patience.seconds):
            yield
    else:
        connection = patience.call(lambda: _locked_connection(patience.place))
        try:
            yield
        finally:
            connection.close()  # which unlocks


def _locked_connection(place: StoragePlace) -> Any:
    import psycopg
    from sqlalchemy.exc import DBAPIError

    try:
        connection = psycopg.connect(place.url, autocommit=True, **place.connect_options)
        connection.execute("SELECT pg_advisory_lock(%s)", [ADVISORY_LOCK])
    except psycopg.Error as error:
        raise DBAPIError("", {}, error) from None
    return connection


@contextmanager
def _file_lock(file: Path, seconds: float) -> Iterator[None]:
    fd = open_plain(file.with_name(f".{file.name}.lock"), os.O_RDWR | os.O_CREAT)
    try:
        deadline = time.monotonic() + seconds
        while not _flock(fd):
            if time.monotonic() > deadline:
                raise StorageLost(f"another process has been opening {printable(file)} for {seconds:.0f} s: end it")
            time.sleep(0.05)
        yield
    finally:
        os.close(fd)


def _flock(fd: int) -> bool:
    try:
        try_lock(fd)
    except BlockingIOError:
        return False
    return True


def _make_file(folder: StudyFolder, file: Path) -> None:
    """An empty file for a new study; SQLite files are opened only where they exist."""
    if folder.exists and not file.exists():
        raise StudyError(
            f"the database {printable(file)} of the study {folder.name} is gone: put a copy of it back, or remove "
            f"{printable(folder.path)} to start over"
        )
    try:
        os.close(open_plain(Path(os.path.realpath(file)), os.O_RDWR | os.O_CREAT))
    except OSError as error:
        raise StudyError(
            f"{printable(file)} cannot be written ({error.strerror or error}): give search.storage another place"
        ) from None


def _open_study(
    folder: StudyFolder,
    place: StoragePlace,
    opened: PatientStorage,
    config: RunConfig | None,
    directions: Sequence[str],
) -> None:
    study = _create_quietly(folder.name, opened, directions)
    known = study.user_attrs
    if STUDY_FORMAT in known:
        _check(folder, study, known, config, directions)
    else:
        _describe(folder, study, config)
    if config is not None and not folder.config.exists():
        replace_file(folder.config, [to_toml(recorded_config(config, short=True)).encode()])
    if not folder.exists:
        folder.write(place, study.user_attrs[STUDY_ID])


def _create_quietly(name: str, opened: PatientStorage, directions: Sequence[str]) -> optuna.Study:
    """Optuna's study of this name, made if there is none, without Optuna's line about it."""
    shown = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(shown, optuna.logging.WARNING))
    try:
        return optuna.create_study(
            study_name=name, storage=opened, directions=cast(Any, list(directions)), load_if_exists=True
        )
    finally:
        optuna.logging.set_verbosity(shown)


def _describe(folder: StudyFolder, study: optuna.Study, config: RunConfig | None) -> None:
    if study.get_trials(deepcopy=False):
        raise StudyError(
            f"the study {folder.name} in this database was not made by a search of rookery, and cannot be continued "
            "by one: give search.study_name another name (rookery study shows it as it is)"
        )
    study.set_user_attr(STUDY_ID, uuid.uuid4().hex)
    if config is not None:
        study.set_user_attr(STUDY_CONFIG, recorded_config(config))
    study.set_user_attr(STUDY_FORMAT, FORMAT)  # last: what is before it is complete


def _check(
    folder: StudyFolder, study: optuna.Study, known: dict[str, Any], config: RunConfig | None, directions: Sequence[str]
) -> None:
    if known[STUDY_FORMAT] != FORMAT:
        raise StudyError(
            f"the study {folder.name} was made by a newer rookery (format {known[STUDY_FORMAT]}; this one reads "
            f"{FORMAT}): pip install -U rookery"
        )
    if folder.exists and folder.read().id != known[STUDY_ID]:
        raise StudyError(
            f"{printable(folder.path)} has the runs of another study than the database, which was replaced: put the "
            "old database back, or give the study another name"
        )
    made = [direction.name.lower() for direction in study.directions]
    if made != list(directions):
        raise StudyError(
            f"the study {folder.name} was made to {' and '.join(made)}, not to {' and '.join(directions)}: give "
            "search.objectives as before, or search.study_name another name"
        )
    if config is not None and STUDY_CONFIG in known:
        check_same(folder.name, known[STUDY_CONFIG], recorded_config(config))


def recorded_config(config: RunConfig, short: bool = False) -> dict[str, Any]:
    """The configuration as it is kept with the study: what JSON has, and no password. If `short`, without defaults."""
    found = config.model_dump(mode="json", exclude_defaults=short)
    if config.search.storage is not None:
        place = StoragePlace.parse(config.search.storage)
        found["search"]["storage"] = config.search.storage if place.file is not None else place.url
    return found


def check_same(name: str, recorded: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse to continue a study with settings that make its trials hard to compare.

    Raises:
        StudyError: Settings differ; the message names them.
    """
    before, now = (flat(each, whole=WHOLE) for each in (rename_old_keys(recorded), json.loads(json.dumps(given))))
    fixed = [key for key in before if key in now and key not in FREE and not key.startswith(FREE_SECTIONS)]
    different = sorted((key for key in fixed if before[key] != now[key]), key=lambda key: key.count("."))  # world first
    if not different:
        return
    shown = ", ".join(f"{key} = {_text(now[key])} ({_text(before[key])} before)" for key in different[:SHOWN])
    more = f" and {len(different) - SHOWN} more" if len(different) > SHOWN else ""
    raise StudyError(
        f"the study {name} cannot be continued with {shown}{more}: its trials could not be compared; give the settings "
        "as before, or search.study_name another name"
    )


def _text(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
