"""Fault 36: a run's folder deleted, renamed or made unwritable while it trains."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import rookery
from rookery.errors import FolderLost
from rookery.training.storage import checkpoint
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_lock import FolderWatch

pytestmark = pytest.mark.timeout(120)
Change = Callable[[Path], Any]
OPTIONS: dict[str, Any] = {
    "learner": "ppo", "device": "cpu", "num_envs": 4, "steps": 2_048, "name": "run", "verbose": False,
    "ppo": {"rollout_length": 32, "epochs": 1, "threads": 1}, "checkpoints": {"every": 256},
    "evaluation": {"every": 10**6, "episodes": 1, "max_episodes": 1},
    "monitor": {"plot": False, "tensorboard": False, "system": False},
}  # fmt: skip


class Meddler(rookery.Callback):
    """Does something to the run's folder after some steps."""

    def __init__(self, change: Change, at: int = 512) -> None:
        self.change, self.at, self.path = change, at, Path()

    def on_start(self, run: Any) -> None:
        self.path = Path(run.path)

    def on_rollout(self, run: Any) -> None:
        if run.step >= self.at:
            self.at = 10**9
            self.change(self.path)


def train_with(change: Change, runs: Path, **options: Any) -> FolderLost:
    with pytest.raises(FolderLost) as caught:
        rookery.train("CartPole-v1", runs_dir=str(runs), callbacks=[Meddler(change)], **(OPTIONS | options))
    return caught.value


def rescued_run(error: FolderLost) -> RunDir:
    """The run in the folder that the error names."""
    place = Path(str(error).partition("saved in ")[2].partition(": `rookery resume")[0])
    assert place.is_dir(), str(error)
    return RunDir(place)


def rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replace_by_a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("mine")


def replace_by_a_folder(path: Path) -> None:
    """With everything that a run's folder contains: only its identity differs."""
    shutil.copytree(path, path.with_name("copy"))
    shutil.rmtree(path)
    path.with_name("copy").rename(path)


LOSSES: dict[str, tuple[Change, str]] = {
    "deleted": (shutil.rmtree, "was deleted"),
    "renamed": (rename, "was renamed to"),
    "replaced by a file": (replace_by_a_file, "was deleted, and something else has its name"),
    "replaced by a folder": (replace_by_a_folder, "was deleted, and something else has its name"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_agent_is_saved_beside_the_lost_folder(tmp_path: Path, loss: str) -> None:
    """The run ends at the next checkpoint. What was lost is not made again, and the saved run can be resumed."""
    change, words = LOSSES[loss]
    error = train_with(change, tmp_path)
    assert words in str(error) and str(tmp_path / "run") in str(error)
    run = rescued_run(error)
    assert run.path == tmp_path / "run-rescued"
    steps = checkpoint.Checkpoints(run.checkpoints).steps()
    assert len(steps) == 1 and 512 <= steps[0] < 1024
    assert not (tmp_path / "run").exists() or loss.startswith("replaced")
    result = rookery.resume(run.path, tmp_path, callbacks=[Meddler(rename, at=10**9)])
    assert result.total_steps == 2_048 and result.reason == "finished"


def test_a_rescued_run_continues_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """With the same weights in the end as a run that was left alone."""
    undisturbed = rookery.train("CartPole-v1", runs_dir=str(tmp_path / "others"), **OPTIONS)
    run = rescued_run(train_with(shutil.rmtree, tmp_path))
    resumed = rookery.resume(run.path, tmp_path, callbacks=[Meddler(rename, at=10**9)])
    states = [rookery.load(result.path, best=False).policy.state_dict() for result in (undisturbed, resumed)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_renamed_folder_keeps_what_it_has(tmp_path: Path) -> None:
    """Nothing is removed from it, and nothing is added after the loss was found."""
    error = train_with(rename, tmp_path)
    moved = tmp_path / "elsewhere"
    assert str(moved) in str(error)
    assert checkpoint.Checkpoints(moved / "checkpoints").steps()[-1] <= 512
    assert (moved / "metrics.jsonl").stat().st_size > 0
    assert not (moved / "summary.json").exists()


def test_a_lost_parent_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent is then among the user's own files."""
    monkeypatch.setenv("ROOKERY_STATE", str(tmp_path / "state"))
    runs = tmp_path / "runs"
    error = train_with(lambda path: shutil.rmtree(path.parent), runs)
    assert not runs.exists()
    run = rescued_run(error)
    assert run.path.is_relative_to(tmp_path / "state")
    assert rookery.load(run.path).act([[0.0] * 4]).shape == (1,)


def test_a_renamed_parent_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOKERY_STATE", str(tmp_path / "state"))
    error = train_with(lambda path: path.parent.rename(tmp_path / "moved"), tmp_path / "runs")
    assert f"was renamed to {tmp_path / 'moved' / 'run'}" in str(error)
    assert not (tmp_path / "runs").exists()


def test_checkpoints_elsewhere_do_not_hide_the_loss(tmp_path: Path) -> None:
    """Those that are there stay; the rescued run has its own."""
    outside = tmp_path / "outside"
    error = train_with(shutil.rmtree, tmp_path, checkpoints={"every": 256, "dir": str(outside)})
    assert checkpoint.Checkpoints(outside / "run").steps()
    run = rescued_run(error)
    assert run.checkpoints == run.path / "checkpoints"


@pytest.mark.parametrize("code", ["EROFS", "EACCES", "ESTALE", "EIO"])
def test_a_folder_that_cannot_be_written_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """A disk that has become read-only or has gone fails again with every write."""
    error = train_with(lambda path: _fail_in(monkeypatch, path, code), tmp_path)
    assert "no checkpoint can be saved any more" in str(error)
    assert rescued_run(error).path == tmp_path / "run-rescued"


@pytest.mark.parametrize("code", ["ENOSPC", "EDQUOT"])
def test_a_full_disk_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """It continues with the checkpoint before, as fault 9 has it."""
    meddler = Meddler(lambda path: _fail_in(monkeypatch, path, code))
    result = rookery.train("CartPole-v1", runs_dir=str(tmp_path), callbacks=[meddler], **OPTIONS)
    assert result.total_steps == 2_048 and checkpoint.Checkpoints(result.path / "checkpoints").steps()
    assert not (tmp_path / "run-rescued").exists()


def _fail_in(monkeypatch: pytest.MonkeyPatch, path: Path, code: str) -> None:
    """Let checkpoints in this run's folder fail."""
    save, number = checkpoint.save, getattr(errno, code)

    def failing(folder: Path, *args: Any, **options: Any) -> None:
        if folder.is_relative_to(path):
            raise OSError(number, os.strerror(number), str(folder))
        save(folder, *args, **options)

    monkeypatch.setattr(checkpoint, "save", failing)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_without_write_permission(tmp_path: Path) -> None:
    error = train_with(lambda path: (path / "checkpoints").chmod(0o500), tmp_path)
    (tmp_path / "run" / "checkpoints").chmod(0o700)
    assert rescued_run(error).path == tmp_path / "run-rescued"


def test_a_folder_lost_after_the_last_step(tmp_path: Path) -> None:
    """Between the last checkpoint and the summary."""

    class Late(rookery.Callback):
        def on_checkpoint(self, run: Any, path: Path) -> None:
            if run.step == OPTIONS["steps"]:
                shutil.rmtree(run.path)

    with pytest.raises(FolderLost, match="was deleted"):
        rookery.train("CartPole-v1", runs_dir=str(tmp_path), callbacks=[Late()], **OPTIONS)
    assert not (tmp_path / "run").exists() and (tmp_path / "run-rescued").exists()


def test_a_watch_tells_a_folder_from_one_that_has_its_number(tmp_path: Path) -> None:
    """A folder that is made at once after the old one was removed often gets the same inode."""
    for attempt in range(20):
        path = tmp_path / f"{attempt}"
        path.mkdir()
        watch = FolderWatch(path)
        assert watch.why_lost() == ""
        path.rmdir()
        path.mkdir()
        assert "something else has its name" in watch.why_lost()
        watch.close()


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["deleted", pytest.param("renamed", marks=pytest.mark.slow)])
def test_the_command_says_so_and_fails(tmp_path: Path, loss: str) -> None:
    """Exit status 2, one line that names the place; the run that it names is there."""
    sets = [
        word for pair in ("ppo.threads=1", "monitor.plot=false", "evaluation.episodes=1") for word in ("--set", pair)
    ]
    command = [
        sys.executable, "-m", "rookery", "train", "CartPole-v1", "--runs-dir", str(tmp_path), "--name", "run",
        "--steps", "10_000_000_000", "--device", "cpu", "--learner", "ppo", "--num-envs", "4", "--no-panel", *sets,
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            _wait_until(lambda: b'"progress"' in _contents(tmp_path / "run" / "metrics.jsonl"))
            LOSSES[loss][0](tmp_path / "run")
            output = process.communicate(timeout=60)[0]
        finally:
            process.kill()
    assert process.returncode == 2, output
    assert LOSSES[loss][1] in output and str(tmp_path / "run-rescued") in output and "Traceback" not in output
    assert not (tmp_path / "run").exists()
    assert checkpoint.Checkpoints(tmp_path / "run-rescued" / "checkpoints").latest() is not None


def _contents(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _wait_until(happened: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)
