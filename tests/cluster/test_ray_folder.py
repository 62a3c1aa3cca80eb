"""Ray's temporary folders: one for each cluster, and none that stays after its process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rookery.cluster import ray_start as module
from rookery.cluster.ray_start import OWNER, PREFIX, ray_folder

HOLD = """
import sys
from rookery.cluster.ray_start import ray_folder
with ray_folder() as folder:
    (folder / "session").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary ones, here and in child processes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_it_is_removed_in_the_end(temp: Path) -> None:
    """With what is in it."""
    with ray_folder() as folder:
        (folder / "session").mkdir()
        assert list(temp.iterdir()) == [folder] and folder.name.startswith(PREFIX)
    assert not list(temp.iterdir())


@pytest.mark.slow
def test_that_of_a_killed_process_is_removed_by_the_next_one(temp: Path) -> None:
    """That of a process that lives is not, nor one of which nobody knows whose it is."""
    others = temp / f"{PREFIX}unknown"
    others.mkdir()
    child = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        left = Path(child.stdout.readline().strip())
        with ray_folder():
            assert (left / "session").is_dir()
    finally:
        child.kill()
        child.communicate()
    assert (left / "session").is_dir() and (left / OWNER).exists()
    with ray_folder() as folder:
        assert set(temp.iterdir()) == {folder, others}


def test_what_is_written_while_it_is_removed_is_left_to_the_next_one(
    temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes of Ray that are ending write their logs again."""
    rmtree = shutil.rmtree

    def and_written_again(path: Path, ignore_errors: bool = False) -> None:
        rmtree(path, ignore_errors=ignore_errors)
        path.mkdir()

    with monkeypatch.context() as patched, ray_folder() as left:
        (left / "session").mkdir()
        patched.setattr(shutil, "rmtree", and_written_again)
        patched.setattr(module, "PAUSE_SECONDS", 0.0)
    assert (left / "session").is_dir() and (left / OWNER).exists()
    with ray_folder() as folder:
        assert list(temp.iterdir()) == [folder]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs symbolic links of Unix")
def test_links_are_not_followed(temp: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A link of that name may lead anywhere."""
    target = tmp_path_factory.mktemp("target")
    (target / OWNER).touch()
    (temp / f"{PREFIX}link").symlink_to(target)
    with ray_folder():
        pass
    assert (target / OWNER).exists()
