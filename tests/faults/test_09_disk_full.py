"""Fault 9: disk full while saving a checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(60)
SMALL_DISK = 'mount -t tmpfs -o size=1500k small "$0" && exec "$@"'  # in a namespace of its own: gone with the process


def saves_to_a_full_disk(command: list[str]) -> int:
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, *filter(None, sys.path)])}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout)


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """On a disk of 1.5 MB, whatever part of a save does not fit: an OSError, the checkpoint before as it was, nothing
    left over, and later ones that do fit are saved."""
    small = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", SMALL_DISK, str(tmp_path)]
    if subprocess.run([*small, "true"], capture_output=True).returncode:
        pytest.skip("mounting a small disk is not allowed here")
    assert saves_to_a_full_disk([*small, sys.executable, "-m", "faults.full_disk", str(tmp_path)]) > 20


@pytest.mark.slow
def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """The same where the kernel refuses to let any file grow beyond 500 kB."""
    assert saves_to_a_full_disk([sys.executable, "-m", "faults.full_disk", str(tmp_path), "500000"]) > 20
