"""Modules that Windows does not have are neither needed for an import nor for what works without them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rookery
from platforms.absent import MODULES
from rookery import files, user_dirs
from rookery.apps.memory_explorer import explorer_terminal
from rookery.errors import OptionError
from rookery.training.storage.run_lock import Lock

SOURCES = Path(rookery.__file__).parent
GUARDED = {
    "files.py", "apps/memory_explorer/explorer_terminal.py", "tools/doctor.py", "engine/workers/child_process.py",
}  # fmt: skip


@pytest.mark.slow
def test_every_module_can_be_imported() -> None:
    """With neither `fcntl`, `resource`, `pwd`, `grp`, `termios` nor the names of `os`, `signal`, `select`, `socket` and
    `time` that Windows lacks."""
    ran = subprocess.run(
        [sys.executable, "-m", "platforms.absent"], capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ""


@pytest.mark.slow
def test_such_modules_are_imported_in_few_places() -> None:
    """Those that do without."""
    found = set()
    for file in SOURCES.rglob("*.py"):
        source = file.read_text()
        if not any(name in source for name in MODULES):
            continue
        for node in ast.walk(ast.parse(source)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if MODULES & set(names):
                found.add(file.relative_to(SOURCES).as_posix())
    assert found == GUARDED


def test_a_run_without_locks_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It trains nevertheless."""
    monkeypatch.setattr(files, "fcntl", None)
    with Lock(tmp_path / "run.lock"):
        assert "cannot be locked (this system has no locks for files)" in caplog.text


def test_a_folder_of_the_user_needs_no_user_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has none."""
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path))
    monkeypatch.delattr("os.geteuid")
    assert user_dirs.cache_folder("kernels") == tmp_path


def test_the_explorer_names_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """And another way."""
    monkeypatch.setattr(explorer_terminal, "termios", None)
    with pytest.raises(OptionError, match="needs Linux or macOS: use its window"), explorer_terminal.own_terminal():
        pass
