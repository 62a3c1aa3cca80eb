"""Fault 15: a malicious pickle placed as a checkpoint or data file."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.errors import CheckpointError, RookeryError, RunError, StateError
from rookery.training.storage import checkpoint, checkpoint_files
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.run_dir import RunDir

TREE = {"agent": {"weights": np.ones(3)}, "step": 1}


class Bomb:
    """Whoever unpickles this makes the canary file."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.canary),)


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


def plain(bomb: Bomb) -> bytes:
    return pickle.dumps(bomb)


def as_npy(bomb: Bomb) -> bytes:
    """What `np.load(allow_pickle=True)` would run."""
    buffer = io.BytesIO()
    np.save(buffer, np.array([bomb], object), allow_pickle=True)
    return buffer.getvalue()


def as_torch_file(bomb: Bomb) -> bytes:
    """What `torch.load(weights_only=False)` would run."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(bomb))
        archive.writestr("archive/version", "3\n")
    return buffer.getvalue()


FORMS = [plain, as_npy, as_torch_file]


def test_the_bombs_are_real(canary: Path) -> None:
    """Otherwise these tests would show nothing."""
    pickle.loads(plain(Bomb(canary)))
    assert canary.exists()
    canary.rmdir()
    np.load(io.BytesIO(as_npy(Bomb(canary))), allow_pickle=True)
    assert canary.exists()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["agent.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("vouched", [False, True])
def test_in_place_of_any_file_of_a_checkpoint(
    name: str, form: Callable[[Bomb], bytes], vouched: bool, tmp_path: Path, canary: Path
) -> None:
    """Refused, also where the manifest was made again so that all hashes are right."""
    folder = tmp_path / "step-000000000001"
    checkpoint.save(folder, TREE)
    (folder / name).write_bytes(form(Bomb(canary)))
    if vouched and name != "manifest.json":
        _vouch(folder)
    with pytest.raises(CheckpointError):
        checkpoint.load(folder)
    with pytest.raises(CheckpointError):
        Checkpoints(tmp_path).load_latest()
    with pytest.raises(CheckpointError):
        Checkpoints(tmp_path).load_best(only=["agent"])
    assert not canary.exists()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["step-000000000002", "latest.pkl", "checkpoint.pt"])
def test_beside_or_instead_of_checkpoints(
    name: str, form: Callable[[Bomb], bytes], tmp_path: Path, canary: Path
) -> None:
    """A file where a folder should be, or one of a name that others would open, is passed over."""
    Checkpoints(tmp_path).save(1, TREE)
    (tmp_path / name).write_bytes(form(Bomb(canary)))
    assert Checkpoints(tmp_path).load_latest()[0] == 1
    with pytest.raises(CheckpointError):
        checkpoint.load(tmp_path / name)
    assert not canary.exists()


@pytest.mark.parametrize("form", FORMS)
def test_as_the_files_of_a_run(form: Callable[[Bomb], bytes], tmp_path: Path, canary: Path) -> None:
    """Config, summary, metrics, the lock, and when it began."""
    run = RunDir.create(tmp_path, "run")
    for name in ("config.json", "summary.json", "run.json", "metrics.jsonl", "evaluations.jsonl", "run.lock"):
        (run.path / name).write_bytes(form(Bomb(canary)))
    with pytest.raises(RunError, match="damaged"):
        run.read_config()
    with pytest.raises(RunError, match="damaged"):
        run.read_summary()
    run.truncate_after(10)
    assert run.metrics.read_bytes() == b""
    assert RunDir.find("latest", tmp_path).name == "run"
    with run.lock(), pytest.raises(RunError):
        run.lock()
    assert not canary.exists()


def test_inside_the_state_of_envs(tmp_path: Path, canary: Path) -> None:
    """An env's state from a file is never taken for one of live memory, which may be a pickle."""
    envs = rookery.make_vec("CartPole-v1", 1, "serial")
    envs.reset(seed=1)
    state = envs.state_dict(portable=True)
    raw = plain(Bomb(canary))
    for i, form in enumerate([np.frombuffer(raw, np.uint8), list(raw), raw.decode("latin1")]):
        state["envs"]["0"]["env"] = {"kind": "pickle", "bytes": form}
        checkpoint.save(tmp_path / str(i), state)
        with pytest.raises(StateError, match="pickle that is not from live memory"):
            envs.load_state_dict(checkpoint.load(tmp_path / str(i)))
    state["envs"]["0"]["env"] = {"kind": "pickle", "bytes": raw}
    with pytest.raises(CheckpointError, match="a bytes cannot be saved"):
        checkpoint.save(tmp_path / "bytes", state)
    assert not canary.exists()


def test_a_snapshot_calls_nothing(tmp_path: Path, canary: Path) -> None:
    """A state that was written by hand can name neither classes nor functions."""
    envs = rookery.make_vec("CartPole-v1", 1, "serial")
    envs.reset(seed=1)
    call = {"kind": "object", "class": "system", "attributes": {}}
    tricks: list[Any] = [call, {"kind": "array", "dtype": "'|O'", "shape": [1], "value": np.zeros(8, np.uint8)}]
    tricks += [{"kind": f"__import__('os').mkdir({str(canary)!r})"}, {"kind": "read"}, {"kind": "items"}]
    tricks += [{"kind": "array", "dtype": f"__import__('os').mkdir({str(canary)!r})", "shape": [], "value": 0}]
    for i, trick in enumerate(tricks):
        state = envs.state_dict(portable=True)
        bare = state["envs"]["0"]["env"]["layers"]
        bare[max(bare)]["attributes"]["state"] = trick
        checkpoint.save(tmp_path / str(i), state)
        with pytest.raises((RookeryError, ValueError, TypeError, KeyError)):
            envs.load_state_dict(checkpoint.load(tmp_path / str(i)))
    assert not canary.exists()


def _vouch(folder: Path) -> None:
    """Make the manifest again for the files that are there."""
    files = {}
    for path in sorted(folder.iterdir()):
        contents = path.read_bytes()
        path.unlink()
        if path.name != "manifest.json":
            files[path.name] = checkpoint_files.write_file(path, [contents])
    with suppress(FileNotFoundError):
        (folder / "manifest.json").unlink()
    checkpoint_files.write_manifest(folder, files, None)
