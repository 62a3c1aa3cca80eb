"""Fault 21: the database of a study is locked, deleted or full, or PostgreSQL is killed and started again."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest

from faults.study_watch import wait_until, workers_of
from faults.study_worker import EXIT_STOPPED, settings_of
from rookery.errors import StorageLost, StudyError
from rookery.studies.storage import sqlite_file
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import StudyStore
from studies.postgres import Server, programs

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StudyStore]:
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.05)
    with opened(tmp_path) as found:
        yield found


def opened(folder: Path, patience: float = 1.0) -> StudyStore:
    sampler = optuna.samplers.RandomSampler(seed=1)
    return StudyStore.open(StudyFolder.create(folder, "study"), None, None, sampler, patience=patience)


def lock(file: Path) -> sqlite3.Connection:
    """Another program, which holds the file for itself until it is closed."""
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN EXCLUSIVE")
    return connection


# --- locked -------------------------------------------------------------------------------------------------------


def test_a_locked_file_is_waited_for(store: StudyStore) -> None:
    store.storage.patience.seconds = 30.0
    claim = store.claim("test", 1)
    assert claim is not None
    other = lock(store.folder.database)
    threading.Timer(0.4, other.close).start()
    claim.suggest(settings_of)
    claim.finish(1.0)
    assert store.study.trials[0].value == 1.0


def test_a_file_that_stays_locked_ends_the_search_in_one_sentence(store: StudyStore, tmp_path: Path) -> None:
    """What was recorded before is there afterwards, and the trial goes on."""
    claim = store.claim("test", 1)
    assert claim is not None
    settings = claim.suggest(settings_of)
    other = lock(store.folder.database)
    with pytest.raises(StorageLost, match=r"study\.db could not be used for .* s \(another process has locked it\)"):
        claim.finish(1.0)
    other.close()
    claim.release()
    with opened(tmp_path) as again:
        taken = again.claim("other", 1)
        assert taken is not None and taken.settings == settings
        taken.finish(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_workers_wait_for_a_locked_file(seed: int, tmp_path: Path) -> None:
    with workers_of(tmp_path / "study", 4, 8, 0.02) as workers:
        workers.start(2)
        wait_until(lambda: len(workers.notes()) >= 3 + 4 * seed)
        other = lock(workers.folder.database)
        time.sleep(7.0)  # longer than SQLite itself waits
        other.close()
        assert [end for end, _ in workers.wait()] == [0, 0]
        workers.check_complete()


# --- deleted ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replaced", [False, True])
def test_a_deleted_file_is_noticed(store: StudyStore, replaced: bool) -> None:
    """Nothing is written into a file that has no name any more, and no empty one takes its place."""
    claim = store.claim("test", 1)
    assert claim is not None
    database = store.folder.database
    copy = database.read_bytes()
    database.rename(database.with_name("moved"))
    if replaced:
        database.write_bytes(copy)
    for write in (claim.renew, lambda: claim.finish(1.0), lambda: store.claim("test", 5)):
        with pytest.raises(StorageLost, match=r"study\.db was deleted or replaced while it was in use: put a copy"):
            write()
    assert database.exists() == replaced


def test_a_study_whose_database_is_gone_is_not_begun_anew(store: StudyStore, tmp_path: Path) -> None:
    """Its runs would be taken for those of new trials."""
    store.folder.database.unlink()
    with pytest.raises(StudyError, match="of the study study is gone: put a copy of it back, or remove"):
        opened(tmp_path)


@pytest.mark.slow
def test_a_worker_ends_in_one_sentence_when_the_folder_is_deleted(tmp_path: Path) -> None:
    with workers_of(tmp_path / "study", 2, 50, 0.02) as workers:
        workers.start()
        wait_until(lambda: len(workers.notes()) >= 3)
        workers.folder.database.unlink()
        [(status, said)] = workers.wait()
        assert status == EXIT_STOPPED
        assert said.startswith("StorageLost: the database") and len(said.splitlines()) == 1


# --- full ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of half a megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path) -> Path:
    rubbish = disk / "rubbish"
    with rubbish.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            while True:
                try:
                    file.write(b"x" * size)
                except OSError:
                    break
    return rubbish


def test_a_full_disk_is_waited_for_and_then_ends_the_search(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What had been recorded stays as it was, and the search goes on when there is room again."""
    with opened(small_disk, patience=0.5) as store:
        claims = [store.claim("test", 3) for _ in range(3)]
        claims[0].finish(1.0)
        rubbish = fill(small_disk)
        with pytest.raises(StorageLost, match="its disk is full"):
            claims[1].set_attribute("much", "x" * 100_000)
        store.storage.patience.seconds = 30.0
        threading.Timer(0.3, rubbish.unlink).start()
        claims[1].set_attribute("much", "x" * 100_000)
        claims[1].finish(2.0)
        assert [trial.value for trial in store.study.trials] == [1.0, 2.0, None]


# --- PostgreSQL ---------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[Server]:
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with Server() as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("down", [0.5, 20.0])
def test_postgres_that_is_killed_and_comes_back_loses_nothing(server: Server, down: float, tmp_path: Path) -> None:
    with workers_of(tmp_path / "study", 6, 10, 0.05, server.new_database("probe")) as workers:
        workers.start(2)
        wait_until(lambda: len(workers.notes()) >= 25)
        server.kill()
        time.sleep(down)
        server.start()
        assert [end for end, _ in workers.wait()] == [0, 0]
        workers.harmed += 4  # leases that ran out while nobody could renew them
        workers.check_complete()


@pytest.mark.slow
def test_postgres_that_does_not_come_back_ends_the_search(server: Server, tmp_path: Path) -> None:
    with workers_of(tmp_path / "study", 6, 10, 0.05, server.new_database("probe"), patience=2.0) as workers:
        workers.start()
        wait_until(lambda: len(workers.notes()) >= 15)
        server.kill()
        [(status, said)] = workers.wait()
        assert status == EXIT_STOPPED
        last = said.splitlines()[-1]
        assert (
            last.startswith("StorageLost: the database postgresql://rookery@/probe?host=") and "Traceback" not in said
        )
        server.start()
        workers.start()
        assert [end for end, _ in workers.wait()] == [0]
        workers.harmed += 1
        workers.check_complete()
        assert os.path.exists(workers.folder.about)
