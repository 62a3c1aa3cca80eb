"""Caches hold code that is run: they are in folders that only their user can write to, and shared between processes."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from rookery.errors import FileError
from rookery.kernel import code_cache
from rookery.learners.cached_njit import cached_njit
from rookery.user_dirs import cache_folder, read_own, state_folder, write_own

KEY = "0" * 64
FORK = get_context("fork")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path / "cache"))
    found = cache_folder("kernels")
    assert found is not None
    return found


def test_folders_are_made_for_their_user_alone(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("spoil", [lambda path: path.chmod(0o770), lambda path: path.chmod(0o707)])
def test_a_folder_that_others_can_write_to_is_not_used(
    folder: Path, spoil: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is read from it nor written to it, and that is told."""
    code_cache.write("World", KEY, "entry", b"code")
    spoil(folder)
    with caplog.at_level("INFO"):
        assert cache_folder("kernels") is None
    assert "nobody else can write to" in caplog.text
    assert code_cache.read("World", KEY) is None


def test_a_link_is_no_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "link").symlink_to(folder)
    monkeypatch.setenv("ROOKERY_CACHE", str(folder.parent / "link"))
    assert cache_folder("kernels") is None


def test_what_is_not_ours_is_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and folders of another user, and files that others may have written."""
    code_cache.write("World", KEY, "entry", b"code")
    (file,) = folder.iterdir()
    assert code_cache.read("World", KEY) == ("entry", b"code")
    file.chmod(0o666)
    with pytest.raises(FileError, match="belongs to another user, or others can write to it"):
        read_own(file)
    assert code_cache.read("World", KEY) is None
    file.chmod(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(FileError, match="belongs to another user, or others can write to it"):
        read_own(file)
    assert cache_folder("kernels") is None


def test_without_a_home_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than one in a place that anybody could have made before."""
    for name in ("ROOKERY_CACHE", "ROOKERY_STATE", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    assert cache_folder("kernels") is None
    assert state_folder("trust") is None
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder("kernels") is None
    assert not Path("relative").exists()
    assert not Path(tempfile.gettempdir(), f"rookery-{os.getuid()}").exists()
    assert code_cache.find("World", KEY, lambda: ("entry", b"code")) == ("entry", b"code")


def test_files_are_written_at_once_and_leave_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_own(folder / "a", b"first")
    monkeypatch.setattr(os, "replace", _full_disk)
    with pytest.raises(OSError, match="No space"):
        write_own(folder / "a", b"second")
    assert os.listdir(folder) == ["a"]
    assert read_own(folder / "a") == b"first"


def _full_disk(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_what_numba_keeps_is_in_such_a_folder_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It unpickles what it finds. Where there is no such folder, it keeps nothing."""

    def twice(x: int) -> int:
        return 2 * x

    kept = cached_njit(nogil=True)(twice)
    assert kept(4) == 8
    assert kept.stats.cache_path.startswith(str(folder))
    assert any(folder.rglob("*.nbi"))
    folder.chmod(0o777)
    assert cached_njit()(twice).stats.cache_path is None


LEARN = """
import sys
from rookery.console import compiler_watched
from rookery.learners.kernels.cpu.ppo_tasks import write_metrics, PLAN, TERMS
import numpy as np
told = []
with compiler_watched(lambda what, seconds: told.append((what, seconds))):
    terms, squares, plan = np.ones((3, TERMS)), np.zeros(64), np.zeros(1, PLAN)
    plan["terms"], plan["squares"], plan["slices"], plan["count"] = terms.ctypes.data, squares.ctypes.data, 3, 6
    metrics = np.zeros(5)
    write_metrics(plan.ctypes.data, metrics)
assert metrics.tolist() == [0.5, -0.5, 0.5, 0.5, 0.0], metrics
print(sum(seconds is not None for _, seconds in told), "the learner's write_metrics" in [what for what, _ in told])
print([name for name in ("scipy.linalg", "numba.np.arraymath") if name in sys.modules])
"""


@pytest.mark.slow
def test_compiled_code_is_told_once_and_read_without_the_compiler(folder: Path) -> None:
    """The second process tells of nothing, and imports neither SciPy nor what Numba needs to compile."""

    def lines() -> list[str]:
        done = subprocess.run([sys.executable, "-c", LEARN], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    assert lines()[0] == "1 True"
    assert lines() == ["0 False", "[]"]


# --- two at once ------------------------------------------------------------------------------------------------------


def _make(made: Path, seconds: float) -> tuple[str, bytes]:
    with made.open("a") as file:
        file.write("made\n")
    time.sleep(seconds)
    return "entry", b"code"


def _find(made: Path, seconds: float) -> None:
    assert code_cache.find("World", KEY, lambda: _make(made, seconds)) == ("entry", b"code")


def test_processes_that_compile_the_same_share_the_work(folder: Path, tmp_path: Path) -> None:
    """One compiles, the others wait for it and read."""
    made = tmp_path / "made"
    workers = [FORK.Process(target=_find, args=(made, 0.3)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert made.read_text() == "made\n"


def test_who_was_killed_while_compiling_holds_nobody_up(folder: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    worker = FORK.Process(target=_find, args=(made, 60))
    worker.start()
    while not made.exists() or not made.read_text():
        time.sleep(0.01)
    os.kill(worker.pid or 0, signal.SIGKILL)
    _find(made, 0)
    worker.join()
    assert made.read_text() == "made\n" * 2


def test_nobody_waits_for_ever(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for a process that was stopped, nor where files cannot be locked."""
    monkeypatch.setattr(code_cache, "PATIENCE", 0.1)
    path = code_cache._path("World", KEY)
    assert path is not None
    with path.with_suffix(".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        _find(tmp_path / "made", 0)
        path.unlink()

        def cannot(*_: Any) -> None:
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr(fcntl, "flock", cannot)
        _find(tmp_path / "made", 0)
    assert (tmp_path / "made").read_text() == "made\n" * 2
