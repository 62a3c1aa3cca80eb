"""Where a study may be stored, and that its password is never shown."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from rookery.errors import MissingExtra, StudyError
from rookery.studies.storage import storage_place
from rookery.studies.storage.storage_place import StoragePlace, network_drive

MOUNTS = """sysfs /sys sysfs rw 0 0
/dev/sda1 / ext4 rw 0 0
host:/export /data nfs4 rw 0 0
/dev/sdb1 /data/local xfs rw 0 0
//box/share /mnt/my\\040share cifs rw 0 0
ann@host:/ /home/ann/far fuse.sshfs rw 0 0
/dev/sdc1 /media/stick fuse.ntfs-3g rw 0 0
C: /mnt/c 9p rw 0 0
tmpfs /tmp tmpfs rw 0 0
disk /over ext4 rw 0 0
host:/x /over nfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/data/studies/x.db", "nfs4"), ("/data", "nfs4"), ("/database/x.db", None), ("/data/local/x.db", None),
     ("/mnt/my share/a/b/x.db", "cifs"), ("/home/ann/far/x.db", "fuse.sshfs"), ("/home/ann/x.db", None),
     ("/media/stick/x.db", None), ("/mnt/c/x.db", "9p"), ("/tmp/x.db", None), ("/over/x.db", "nfs")],
)  # fmt: skip
def test_network_drives_are_found_by_the_nearest_mount(path: str, kind: str | None) -> None:
    assert network_drive(Path(path), MOUNTS) == kind


def test_a_file_on_a_network_drive_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_place, "network_drive", lambda path: "nfs4")
    with pytest.raises(StudyError, match=r"x\.db is on a network drive \(nfs4\).*PostgreSQL database \(postgresql://"):
        StoragePlace.parse("x.db").check_drive()


def test_links_lead_to_the_drive_that_counts(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far")
    mounts = f"disk / ext4 rw 0 0\nhost:/x {tmp_path}/far nfs rw 0 0\n"
    assert network_drive(tmp_path / "link" / "x.db", mounts) == "nfs"


@pytest.mark.parametrize(
    ("storage", "file"),
    [("x.db", "x.db"), ("sqlite:///x.db", "x.db"), ("sqlite:////a/b c{d}.db", "/a/b c{d}.db"), ("/a/x.db", "/a/x.db")],
)
def test_sqlite_files(storage: str, file: str) -> None:
    assert StoragePlace.parse(storage).file == Path(os.path.abspath(file))


@pytest.mark.parametrize(
    "url",
    ["postgresql://ann:s3cret@host:5433/db", "postgres://ann:s3cret@host:5433/db",
     "postgresql+psycopg://ann@host:5433/db?password=s3cret", "postgresql://ann:s%33cret@host:5433/db"],
)  # fmt: skip
def test_a_password_is_kept_apart_from_the_url(url: str) -> None:
    place = StoragePlace.parse(url)
    assert (place.url, place.password) == ("postgresql://ann@host:5433/db", "s3cret")
    assert place.environment == {"PGPASSWORD": "s3cret"} and "s3cret" not in place.shown + repr(place)


@pytest.mark.parametrize("url", ["postgresql://ann:s3/cret@host/db", "postgresql://ann:s3#cret@host/db",
                                 "postgresql://ann:s3?cret@host/db"])  # fmt: skip
def test_a_password_that_breaks_the_url_is_not_shown(url: str) -> None:
    with pytest.raises(StudyError, match="cannot be read") as caught:
        StoragePlace.parse(url)
    assert "s3" not in str(caught.value) and "%2F" in str(caught.value)


@pytest.mark.parametrize("url", ["postgresql:///db?host=/run/pg", "postgresql://[::1]:5432/db", "postgresql://host/db"])
def test_other_forms_of_a_url_stay(url: str) -> None:
    assert StoragePlace.parse(url).url == url


@pytest.mark.parametrize(
    "storage", ["mysql://u:s3cret@h/db", "redis://h", "sqlite://", "sqlite:///:memory:", ":memory:", "http://h/x",
                "postgresql+psycopg2://u:s3cret@h/db", "file:x.db?mode=ro"],
)  # fmt: skip
def test_other_storages_are_refused_in_one_sentence(storage: str) -> None:
    with pytest.raises(
        StudyError, match="give the path of a SQLite file, or postgresql://user@host/database"
    ) as caught:
        StoragePlace.parse(storage)
    assert "s3cret" not in str(caught.value)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    for missing, extra in (("psycopg", "postgres"), ("optuna", "search")):
        monkeypatch.setattr(
            storage_place, "find_spec", lambda name, gone=missing: None if name == gone else found(name)
        )
        with pytest.raises(MissingExtra, match=rf"pip install 'rookery\[{extra}\]'"):
            StoragePlace.parse("postgresql://host/db").check_driver()
