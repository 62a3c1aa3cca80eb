"""Fault 14: a flipped byte in a checkpoint."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from rookery.errors import CheckpointError
from rookery.training.storage import checkpoint
from rookery.training.storage.checkpoint import Checkpoints

FLIPS = 1000
TREE = {
    "agent": {"weights": np.arange(40.0), "steps": 12, "names": ["a", "b"], "rate": 0.1},
    "replay": {"flags": np.ones(30, np.bool_), "none": None},
}


@pytest.mark.slow
def test_every_flipped_byte_is_refused(tmp_path: Path) -> None:
    """Any byte of any file changed to any other value: a thousand of them, spread over the files alike."""
    checkpoint.save(tmp_path / "c", TREE)
    files, draw = sorted((tmp_path / "c").iterdir()), random.Random(14)
    assert [path.name for path in files] == [
        "agent.safetensors", "manifest.json", "replay.safetensors", "state.json"
    ]  # fmt: skip
    whole = {path: path.read_bytes() for path in files}
    for i in range(FLIPS):
        path = files[i % len(files)]
        at, flip = draw.randrange(len(whole[path])), draw.choice([1 << draw.randrange(8), draw.randrange(1, 256)])
        damaged = bytearray(whole[path])
        damaged[at] ^= flip
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"json|safetensors"):
            checkpoint.load(tmp_path / "c")
        path.write_bytes(whole[path])
    assert np.array_equal(checkpoint.load(tmp_path / "c")["agent"]["weights"], np.arange(40.0))


@pytest.mark.slow
def test_every_byte_of_the_manifest_counts(tmp_path: Path) -> None:
    """It vouches for the others; each of its own bytes, spaces too, is vouched for by its seal."""
    checkpoint.save(tmp_path / "c", TREE, score=1.0)
    path = tmp_path / "c" / "manifest.json"
    whole = path.read_bytes()
    for at in range(len(whole)):
        for value in {whole[at] ^ 1, whole[at] ^ 0x20, ord(" "), ord("\t"), ord("0"), ord("}")} - {whole[at]}:
            path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            with pytest.raises(CheckpointError, match=r"manifest\.json"):
                checkpoint.load(tmp_path / "c")


def test_the_one_before_is_offered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A run continues from the last valid checkpoint, and says so."""
    checkpoints = Checkpoints(tmp_path)
    for step in (10, 20):
        checkpoints.save(step, {**TREE, "step": step})
    path = tmp_path / "step-000000000020" / "agent.safetensors"
    contents = path.read_bytes()
    path.write_bytes(contents[:-1] + bytes([contents[-1] ^ 4]))
    with caplog.at_level("INFO", "rookery"):
        assert checkpoints.load_latest()[1]["step"] == 10
    assert f"{path} is damaged" in caplog.text
